"""``python -m producers [document.json]``: one producer, from its document on standard input or in a file."""

from __future__ import annotations

import sys

from producers.producer import Producer, ProducerDocument
from stallbench.records.events import EventLog
from stallbench.role import Stop, read_document, run_role, say


def main() -> None:
    """Run one producer until it is asked to stop."""
    document = read_document(ProducerDocument, sys.argv[1:])
    stop = Stop()
    with EventLog(document.events, document.name) as log:
        producer = Producer(document, log, stop)
        producer.fill()
        say(ready={})
        producer.run()


if __name__ == "__main__":
    run_role(main)
