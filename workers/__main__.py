"""``python -m workers [document.json]``: one worker, from its document on standard input or in a file."""

from __future__ import annotations

import sys

from stallbench.records.events import EventLog
from stallbench.role import Go, Stop, read_document, run_role, say
from workers.worker import Worker, WorkerDocument


def main() -> None:
    """Run one worker until it is asked to stop."""
    document = read_document(WorkerDocument, sys.argv[1:])
    stop, go = Stop(), Go()
    with EventLog(document.events, document.name) as log:
        worker = Worker(document, log, stop)
        say(ready={})
        if document.wait_for_go:
            go.wait(stop)
        worker.run()


if __name__ == "__main__":
    run_role(main)
