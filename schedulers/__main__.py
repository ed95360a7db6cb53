"""``python -m schedulers [document.json]``: one scheduler, from its document on standard input or in a file."""

from __future__ import annotations

import sys

from schedulers.scheduler import Scheduler, SchedulerDocument
from stallbench.records.events import EventLog
from stallbench.role import Stop, read_document, run_role, say


def main() -> None:
    """Run one scheduler until it is asked to stop."""
    document = read_document(SchedulerDocument, sys.argv[1:])
    stop = Stop()
    with EventLog(document.events, document.name) as log:
        scheduler = Scheduler(document, log, stop)
        say(ready={})
        scheduler.run()


if __name__ == "__main__":
    run_role(main)
