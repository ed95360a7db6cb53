# stallbench's contract with an adapter in Ruby: reads the document, records jobs, carries out job faults, answers batches.
# Ruby's own libraries only. docs/add-a-library.md describes the contract.

require "fileutils"
require "json"
require "zlib"

module Stallbench
  # The job fails, as after an error in the application's code.
  class JobFailed < StandardError
  end

  # Returns the document: the first line of standard input.
  def self.read_document
    JSON.parse($stdin.gets)
  end

  # Sends the bench a message: one JSON object on one line of standard output.
  def self.tell(message)
    $stdout.syswrite("#{JSON.generate(message)}\n")
  end

  # Records what the worker does, one line for each event; each line is one write, which reaches the kernel before it returns.
  class Recorder
    def initialize(document)
      @name = document["name"]
      @work_s = document["work_s"] || 0
      @faults = document["job_faults"]
      @log = File.open(document["events"], File::WRONLY | File::APPEND | File::CREAT, 0o644)
      @random = Random.new(document["seed"] || 1)
      @met = []
      return unless document["wait_for_go"]

      @go, go = IO.pipe
      trap("USR1") { go.write_nonblock("go") }
    end

    # Says that the worker is connected; waits for SIGUSR1 if the bench wants all workers to begin together.
    def ready
      Stallbench.tell(ready: {})
      return unless @go

      trap("TERM") { exit!(0) }
      @go.readpartial(2)
      trap("TERM", "DEFAULT")
    end

    # Appends an event of `stallbench.records.events`.
    def write(event, job = "", attempt = "", detail = "")
      wall_ns = Process.clock_gettime(Process::CLOCK_REALTIME, :nanosecond)
      mono_ns = Process.clock_gettime(Process::CLOCK_MONOTONIC, :nanosecond)
      line = "#{[wall_ns, mono_ns, @name, event, job, attempt, "", "", detail.tr(",", ";").split.join(" ")].join(",")}\n"
      raise IOError, "a record was not written whole; is the disk full?" if @log.syswrite(line) != line.bytesize
    end

    # Executes a job: records that its handler starts, does its work, records the end.
    def work(job, attempt = "")
      number, payload = job.values_at("n", "payload")
      if Zlib.crc32("#{number}:#{payload}") != job["sum"]
        write("error", number, attempt, "DamagedArguments in claim: they do not match their checksum")
        raise JobFailed, "the arguments of job #{number} are damaged"
      end
      write("claimed", number, attempt)
      sleep(meet_faults(payload))
      write("worked", number, attempt)
    end

    private

    # Carries out the job faults that affect this job; returns the seconds that its work takes.
    def meet_faults(payload)
      met = active_faults.select { |_, fault| meets?(payload, fault) }
      (met.keys - @met).each { |name| Stallbench.tell(met: name) }
      @met |= met.keys
      Process.kill("KILL", Process.pid) if met.any? { |name, fault| fault["kills"] && announce_kill(name) }
      failing = met.select { |_, fault| fault["fails"] }.keys
      raise JobFailed, "a dependency of the job is unavailable (#{failing.join(", ")})" if failing.any?

      met.values.filter_map { |fault| fault["takes_s"] }.max || @work_s
    end

    def active_faults
      found = Dir.glob("#{@faults}/*.json").sort.to_h do |path|
        [File.basename(path, ".json"), JSON.parse(File.read(path))]
      rescue Errno::ENOENT # it ended just now
        [path, { "on" => "" }]
      end
      found.select { |_, fault| fault["on"] == "workers" || "#{@name}-".start_with?("#{fault["on"]}-") }
    end

    def meets?(payload, fault)
      return false unless fault["kills"] || fault["fails"] || fault["takes_s"]
      return false unless fault["mark"].nil? || JSON.parse(payload)["mark"] == fault["mark"]

      fault["share"] >= 1 || @random.rand < fault["share"]
    end

    def announce_kill(name)
      announcement = "#{@faults}/#{name}.#{@name}.killed"
      FileUtils.touch(announcement)
      is_active = File.exist?("#{@faults}/#{name}.json")
      FileUtils.rm_f(announcement) unless is_active
      is_active
    end
  end

  # Calls the block with the arguments of each batch that the bench sends, and answers ok, or the error's code and message.
  def self.serve_batches(code_of = ->(error) { error.class.name })
    tell(ready: {})
    while (line = $stdin.gets)
      begin
        yield JSON.parse(line)["jobs"]
        tell(ok: true)
      rescue StandardError => error
        tell(error: code_of.call(error).to_s, message: error.message.split.join(" "))
      end
    end
  end
end
