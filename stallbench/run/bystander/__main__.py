"""``python -m stallbench.run.bystander [document.json]``: one bystander, from its document on standard input or in a file."""

from __future__ import annotations

from stallbench.engines.role_errors import run_role
from stallbench.processes.exposure import make_event_figures, serve
from stallbench.processes.role import Stop, read_document, send_message
from stallbench.processes.role_arguments import role_parser
from stallbench.records.events import EventLog
from stallbench.run.bystander.client import Bystander, BystanderDocument


def main() -> None:
    """Query until asked to stop. A server that is gone does not end it: what it does not answer is recorded."""
    does = "Query a table beside the queue in open loop, as the rest of an application does."
    document = read_document(
        BystanderDocument, role_parser("stallbench.run.bystander", does, BystanderDocument).parse_args().document
    )
    stop = Stop()
    figures = make_event_figures(document.expose)
    with EventLog(document.events, document.name) as log:
        bystander = Bystander(document, log, figures.observe if figures else None)
        bystander.connect()
        send_message(ready=serve(document.expose, figures))
        bystander.run(stop)


if __name__ == "__main__":
    run_role(main)
