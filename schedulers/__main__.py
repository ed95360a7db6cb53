"""``python -m schedulers [document.json]``: one scheduler, from its document on standard input or in a file."""

from __future__ import annotations

from schedulers.scheduler import Scheduler, SchedulerDocument
from stallbench.engines.role_errors import run_role
from stallbench.processes.exposure import make_event_figures, serve
from stallbench.processes.role import Stop, read_document, send_message
from stallbench.processes.role_arguments import role_parser
from stallbench.records.events import EventLog


def main() -> None:
    """Run one scheduler until it is asked to stop."""
    does = "Run the periodic part of a queue, for example to make due jobs available."
    document = read_document(SchedulerDocument, role_parser("schedulers", does, SchedulerDocument).parse_args().document)
    stop = Stop()
    figures = make_event_figures(document.expose)
    with EventLog(document.events, document.name, figures.observe if figures else None) as log:
        scheduler = Scheduler(document, log, stop)
        send_message(ready=serve(document.expose, figures))
        scheduler.run()


if __name__ == "__main__":
    run_role(main)
