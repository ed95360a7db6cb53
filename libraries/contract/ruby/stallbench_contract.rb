# stallbench's contract with an adapter in Ruby: reads the document, records jobs, answers batches.
# stallbench_faults.rb carries out job faults. Ruby's own libraries only. docs/add-a-library.md describes the contract.

require "json"
require "zlib"
require_relative "stallbench_clock"
require_relative "stallbench_faults"

module Stallbench
  # Returns the document: the first line of standard input.
  def self.read_document
    JSON.parse($stdin.gets)
  end

  # Records what the worker does, one line for each event; each line is one write, which reaches the kernel before it returns.
  class Recorder
    def initialize(document)
      @name = document["name"]
      @clock = Clock.new(document)
      @faults = Faults.new(document, @clock)
      @log = File.open(document["events"], File::WRONLY | File::APPEND | File::CREAT, 0o644)
      return unless document["wait_for_go"]

      @go, go = IO.pipe
      trap("USR1") { go.write_nonblock("go") }
    end

    # Says that the worker is connected; waits for SIGUSR1 if the bench wants all workers to begin together.
    def ready
      trap("TERM") { exit!(0) } if @go
      Stallbench.send_message(ready: {})
      return unless @go

      @go.readpartial(2)
      trap("TERM", "DEFAULT")
    end

    # Appends an event of `stallbench.records.events`.
    def write(event, job = "", attempt = "", detail = "")
      mono_ns = Process.clock_gettime(Process::CLOCK_MONOTONIC, :nanosecond)
      line = "#{[@clock.read, mono_ns, @name, event, job, attempt, "", "", detail.tr(",", ";").split.join(" ")].join(",")}\n"
      raise IOError, "a record was not written whole; is the disk full?" if @log.syswrite(line) != line.bytesize

      @faults.pass("after_completion_acknowledged", job) if event == "completed"
    end

    # Executes a job: records that its handler starts, does its work, records the end.
    def work(job, attempt = "")
      number, payload = job.values_at("n", "payload")
      if Zlib.crc32("#{number}:#{payload}") != job["sum"]
        write("error", number, attempt, "DamagedArguments in claim: they do not match their checksum")
        raise JobFailed, "the arguments of job #{number} are damaged"
      end
      write("claimed", number, attempt)
      @faults.pass("after_claim", number)
      takes_s = @faults.meet(number, payload)
      if @faults.at?("during_work")
        sleep(takes_s /= 2.0)
        @faults.pass("during_work", number)
      end
      sleep(takes_s)
      write("worked", number, attempt)
      @faults.pass("before_completion", number)
    end
  end

  # Modules of drivers, and of what wraps their errors.
  OF_DATABASES = %w[ActiveRecord Mysql2 PG SQLite3 Sequel Trilogy].freeze

  # Returns the code of the driver's error that a library has wrapped: the number of MariaDB, or the SQLSTATE; else its class. Of a class that is not of
  # a database, the modules are named, too: Errno::ECONNREFUSED and Faraday::ConnectionFailed may be of a web service that the application calls.
  def self.code_of(error)
    cause = error.cause || error
    return cause.error_number if cause.respond_to?(:error_number) && cause.error_number

    # PG::Result::PG_DIAG_SQLSTATE
    sqlstate = cause.result&.error_field("C".ord) if cause.respond_to?(:result)
    return sqlstate if sqlstate

    modules = [cause, error].map { |each| each.class.to_s.split("::") }
    modules.find { |each| OF_DATABASES.include?(each.first) }&.last || modules.last.join(".")
  end

  # Calls the block with the arguments of each batch that the bench sends, and answers ok, refused, or the error's code and message.
  def self.serve_batches
    send_message(ready: {})
    while (line = $stdin.gets)
      begin
        yield JSON.parse(line)["jobs"]
        send_message(ok: true)
      rescue JobsRefused => refusal
        send_message(refused: refusal.message)
      rescue StandardError => error
        send_message(error: code_of(error).to_s, message: error.message.split.join(" "))
      end
    end
  end
end
