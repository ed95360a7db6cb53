"""``python -m producers [document.json]``: one producer, from its document on standard input or in a file.

``python -m producers --join DIR``: a producer that joins the run in DIR, or the newest run in DIR, if the run accepts external processes.
"""

from __future__ import annotations

from producers.producer import Producer, ProducerDocument
from stallbench.engines.role_errors import run_role
from stallbench.processes.exposure import make_event_figures, make_offered_rate, serve
from stallbench.processes.role import Stop, Suspension, send_message
from stallbench.processes.role_arguments import role_parser
from stallbench.queues.role_document import role_document
from stallbench.records.events import EventLog


def main() -> None:
    """Run one producer until it is asked to stop."""
    arguments = role_parser("producers", "Enqueue jobs by an open-loop schedule.", ProducerDocument, joins=True).parse_args()
    stop = Stop()
    suspension = Suspension(stop)
    with role_document(ProducerDocument, "producer", arguments, stop) as document:
        if document is None:
            return
        figures = make_event_figures(document.expose)
        with EventLog(document.events, document.name, figures.observe if figures else None) as log:
            producer = Producer(document, log, stop)
            producer.fill()
            send_message(ready=serve(document.expose, figures, make_offered_rate(document.expose, document.rate)))
            producer.run()
            while suspension.asked:
                log.close()
                if not suspension.wait_for_resume():
                    return
                log.open()
                producer.run()


if __name__ == "__main__":
    run_role(main)
