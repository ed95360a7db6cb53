"""A bystander in a thread of the test, which may query any server."""

from __future__ import annotations

from pathlib import Path
from threading import Thread

from stallbench.processes.role import Stop
from stallbench.records.endpoint import Endpoint
from stallbench.records.events import Event, EventLog, EventRecord
from stallbench.records.reading import read_events
from stallbench.run.bystander.client import Bystander, BystanderDocument
from tests.waiting import wait_for

RATE = 200.0
PERIOD_NS = 10**9 / RATE


class RunningBystander:
    """A bystander in a thread of the test."""

    def __init__(self, folder: Path, endpoint: Endpoint) -> None:
        """Begin to query the table, which must exist; the log is in ``folder``."""
        self.document = BystanderDocument(name="bystander", endpoint=endpoint, events=folder / "events.csv", rate=RATE, seed=1)
        self._stop = Stop(by=())
        self._thread = Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        with EventLog(self.document.events, "bystander") as log:
            Bystander(self.document, log).run(self._stop)

    def records(self, event: Event) -> list[EventRecord]:
        return (
            [record for record in read_events(self.document.events) if record.event is event]
            if self.document.events.exists()
            else []
        )

    def wait_for(self, event: Event, count: int = 1) -> list[EventRecord]:
        return wait_for(lambda: found if len(found := self.records(event)) >= count else None, f"{count} of {event}")

    def stop(self) -> None:
        self._stop.ask()
        self._thread.join()

    def list_missing(self) -> list[int]:
        """Return the numbers of the queries that were due between the first and the last recorded one, and that no event has exactly once."""
        ended = [*self.records(Event.QUERY_ANSWERED), *self.records(Event.QUERY_UNANSWERED)]
        due = [record.intended_ns for record in ended if record.intended_ns is not None]
        numbers = [round((each - min(due)) / PERIOD_NS) for each in due]
        return [number for number in range(max(numbers) + 1) if numbers.count(number) != 1]
