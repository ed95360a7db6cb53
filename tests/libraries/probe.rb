# An adapter whose library executes each job that it is handed at once: it shows the contract module alone.
require "net/http"
require_relative "../../libraries/contract/ruby/stallbench_contract"

recorder = Stallbench::Recorder.new(Stallbench.read_document)
recorder.ready
Stallbench.serve_batches do |jobs|
  raise Stallbench::JobsRefused, "the queue is full" if jobs[0]["payload"] == "full"

  Net::HTTP.get(URI(jobs[0]["payload"])) if jobs[0]["payload"].start_with?("http:")

  jobs.each do |job|
    recorder.work(job, 1)
    recorder.write("completed", job["n"], 1)
  end
end
