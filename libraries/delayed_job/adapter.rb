# delayed_job with Active Record, as `rake jobs:work` runs it: its Worker, with the table of its own migration.

require_relative "../contract/ruby/stallbench_contract"
require "erb"
require "active_record"
require "delayed_job_active_record"

# The application's job. delayed_job stores it as YAML.
BenchJob = Struct.new(:n, :sum, :payload) do
  # delayed_job calls this with its record of the job before `perform`.
  def before(record)
    @attempt = record.attempts + 1
  end

  def perform
    Recording.recorder.work({ "n" => n, "sum" => sum, "payload" => payload }, @attempt)
  end
end

# Records the end of each job. The worker returns from `perform` when it has committed the job's DELETE, or its new time after an error.
class Recording < Delayed::Plugin
  class << self
    attr_accessor :recorder
  end

  callbacks do |lifecycle|
    lifecycle.around(:perform) do |worker, record, &block|
      job = record.payload_object
      attempt = record.attempts + 1
      block.call(worker, record).tap { |succeeded| write_end(succeeded, job.n, attempt, record.error) }
    end
  end

  def self.write_end(succeeded, number, attempt, error)
    if succeeded
      recorder.write("completed", number, attempt)
    elsif error.is_a?(ActiveRecord::ActiveRecordError)
      recorder.write("error", number, attempt, "#{Stallbench.code_of(error)} in complete: #{error.message}")
    else
      recorder.write("failed", number, attempt, error.message)
    end
  end

  # delayed_job calls `recover_from` of its record class after an error in a claim.
  module Claims
    def recover_from(error)
      Recording.recorder.write("error", "", "", "#{Stallbench.code_of(error)} in claim: #{error.message}")
    end
  end
end

def connect(document)
  endpoint = document["endpoint"]
  access = { host: endpoint["host"], port: endpoint["port"], database: endpoint["database"], username: endpoint["user"], password: endpoint["password"] }
  of_engine = case endpoint["engine"]
              when "postgres" then { adapter: "postgresql", application_name: "stallbench:#{document["name"]}", prepared_statements: endpoint["prepared_statements"] }
              else { adapter: "mysql2", encoding: "utf8mb4" }
              end
  ActiveRecord::Base.establish_connection(**access, **of_engine)
  ActiveRecord::Base.connection
end

def work(document)
  options = document["queue_options"]
  connect(document)
  Delayed::Worker.max_run_time = options["max_run_time"].seconds
  Delayed::Worker.max_attempts = options["max_attempts"]
  Delayed::Worker.plugins << Recording
  Delayed::Job.extend(Recording::Claims)
  Delayed::Backend::ActiveRecord.configure { |settings| settings.reserve_sql_strategy = options["reserve_sql_strategy"].to_sym }
  Recording.recorder = Stallbench::Recorder.new(document)
  trap("TERM") { exit!(0) } # until the worker has a handler of its own
  Recording.recorder.ready
  Delayed::Worker.new(sleep_delay: options["sleep_delay"]).start
end

def produce(document)
  connect(document)
  Stallbench.serve_batches do |jobs|
    ActiveRecord::Base.transaction do
      jobs.each { |job| Delayed::Job.enqueue(BenchJob.new(*job.values_at("n", "sum", "payload"))) }
    end
  ensure
    # As Rails does after each request. The next one reconnects if the connection is lost.
    ActiveRecord::Base.clear_active_connections!
  end
end

# Runs the migration that `rails generate delayed_job:active_record` would write into an application.
def install(document)
  connect(document)
  library = $LOADED_FEATURES.grep(%r{/delayed_job_active_record\.rb\z}).first
  template = File.read("#{File.dirname(library)}/generators/delayed_job/templates/migration.rb")
  eval(ERB.new(template).result_with_hash(migration_version: "[#{ActiveRecord::Migration.current_version}]")) # rubocop:disable Security/Eval
  ActiveRecord::Migration.verbose = false
  CreateDelayedJobs.migrate(:up)
end

document = Stallbench.read_document
send(ARGV.fetch(0), document)
