"""An adapter whose library executes each job that it is handed at once: it shows the contract module alone."""

from stallbench_contract import Recorder, read_document, serve_batches

recorder = Recorder(read_document())
recorder.ready()
serve_batches(lambda jobs: [recorder.work(job, 1) for job in jobs])
