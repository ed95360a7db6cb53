"""``python -m workers [document.json]``: one worker, from its document on standard input or in a file.

``python -m workers --join DIR``: a worker that joins the run in DIR, or the newest run in DIR, if the run accepts external processes.
"""

from __future__ import annotations

from stallbench.engines.role_errors import run_role
from stallbench.processes.exposure import make_event_figures, serve
from stallbench.processes.role import CannotContinueError, Stop, Suspension, send_message
from stallbench.processes.role_arguments import role_parser
from stallbench.queues import find_queue
from stallbench.queues.role_document import role_document
from stallbench.records.events import EventLog
from workers.worker import Worker, WorkerDocument


def main() -> None:
    """Run one worker until it is asked to stop."""
    arguments = role_parser("workers", "Claim, work and complete jobs.", WorkerDocument, joins=True).parse_args()
    stop = Stop()
    suspension = Suspension(stop)
    with role_document(WorkerDocument, "worker", arguments, stop) as document:
        if document is None:
            return
        if find_queue(document.queue).worker_command() is not None:
            raise CannotContinueError(
                f"{document.queue} claims in its own worker: a worker of the bench cannot take part in its run"
            )
        figures = make_event_figures(document.expose)
        with EventLog(document.events, document.name, figures.observe if figures else None) as log:
            worker = Worker(document, log, stop)
            send_message(ready=serve(document.expose, figures))
            if document.wait_for_go:
                suspension.wait_for_go()
            worker.run()
            while suspension.asked:
                log.close()
                if not suspension.wait_for_resume():
                    return
                log.open()
                worker.run()


if __name__ == "__main__":
    run_role(main)
