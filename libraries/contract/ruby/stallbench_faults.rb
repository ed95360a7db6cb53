# Job faults in an adapter in Ruby: jobs that take longer, fail, or kill their worker, and crash points. stallbench_contract.rb calls them.
# Ruby's own libraries only. `stallbench.injection.job_faults` describes the files.

require "digest"
require "json"

module Stallbench
  # The job fails, as after an error in the application's code.
  class JobFailed < StandardError
  end

  # The queue takes none of the batch's jobs, for example because it is full.
  class JobsRefused < StandardError
  end

  # The signal and the announcement of what happens at a crash point.
  CRASHES = { "kill" => %w[KILL killed], "pause" => %w[STOP stopped] }.freeze

  # Sends the bench a message: one JSON object on one line of standard output.
  def self.send_message(message)
    $stdout.syswrite("#{JSON.generate(message)}\n")
  end

  # Whether the nth draw with a seed hits: the same in every language, from the first 32 bits of a SHA-256.
  def self.draw?(seed, nth, share)
    Digest::SHA256.hexdigest("#{seed} #{nth}")[0, 8].hex < share * 2**32
  end

  # The job faults that a worker meets.
  class Faults
    def initialize(document, clock)
      @clock = clock
      @name = document["name"]
      @seed = document["seed"] || 1
      @work_s = document["work_s"] || 0
      @folder = document["job_faults"]
      @met = []
      @counts = Hash.new(0)
    end

    # Carries out those that affect a job; returns the seconds that its work takes.
    def meet(number, payload)
      met = read_active.select { |name, fault| affects?(payload, name, fault) }
      (met.keys - @met).each { |name| Stallbench.send_message(met: name) }
      @met |= met.keys
      Process.kill("KILL", Process.pid) if met.any? { |name, fault| fault["kills"] && announce(name, "killed", number) }
      failing = met.select { |_, fault| fault["fails"] }.keys
      raise JobFailed, "a dependency of the job is unavailable (#{failing.join(", ")})" if failing.any?

      met.values.filter_map { |fault| fault["takes_s"] }.max || @work_s
    end

    # Is at a crash point with a job: the process may be killed, or stopped until the bench resumes it, before this returns.
    def pass(point, number)
      read_active.each do |name, fault|
        next unless fault["at"] == point && due?(name, fault)

        signal, announcement = CRASHES[fault["crash"]]
        Process.kill(signal, Process.pid) if announce(name, announcement, number)
      end
    end

    # Whether a crash at this point is active.
    def at?(point)
      read_active.any? { |_, fault| fault["at"] == point }
    end

    private

    # Whether this passage of a crash point crashes: every n-th, or drawn by share.
    def due?(name, fault)
      passage = count(name)
      return (passage % fault["every_nth"]).zero? if fault["every_nth"]

      Stallbench.draw?("#{fault["seed"]} #{@name}", passage, fault["share"])
    end

    # Returns the content of each job fault that is active for this worker, by its name.
    def read_active
      return {} unless @folder

      found = Dir.glob("#{@folder}/*.json").sort.to_h do |path|
        [File.basename(path, ".json"), JSON.parse(File.read(path))]
      rescue Errno::ENOENT # it ended just now
        [path, { "on" => "" }]
      end
      found.select { |_, fault| fault["on"] == "workers" || "#{@name}-".start_with?("#{fault["on"]}-") }
    end

    # Whether a job fault affects a job, by its mark and its share, or the clock of this process.
    def affects?(payload, name, fault)
      return @clock.off? if fault["clock_offset_s"] != 0
      return false unless fault["kills"] || fault["fails"] || fault["takes_s"]
      return false unless fault["mark"].nil? || JSON.parse(payload)["mark"] == fault["mark"]

      fault["share"] >= 1 || Stallbench.draw?("#{@seed} #{name}", count(name), fault["share"])
    end

    # Returns how often this is asked for a job fault: 1 at the first time.
    def count(name)
      @counts[name] += 1
    end

    # Announces that a job fault ends or stops this worker now; returns false if it has ended meanwhile.
    def announce(name, what, number)
      announcement = "#{@folder}/#{name}.#{@name}.#{what}"
      File.write(announcement, number.to_s)
      is_active = File.exist?("#{@folder}/#{name}.json")
      File.delete(announcement) unless is_active
      is_active
    end
  end
end
