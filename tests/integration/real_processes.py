"""Workers and producers as the bench starts them, and what they write down."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from stallbench.processes.process import Process
from stallbench.processes.supervisor import Supervisor
from stallbench.records.endpoint import Endpoint
from stallbench.records.events import Event, EventRecord, read_events

PATIENCE_S = 60.0


@dataclass(frozen=True, slots=True)
class RecordingProcess:
    """A process that is ready, and its events."""

    process: Process
    path: Path

    def records(self) -> list[EventRecord]:
        """Return all events but the empty claims."""
        return [record for record in read_events(self.path) if record.event is not Event.EMPTY]

    def of(self, *events: Event) -> list[EventRecord]:
        """Return the records of some events."""
        return [record for record in self.records() if record.event in events]

    def wait_until(self, seen: Callable[[Sequence[EventRecord]], bool], what: str) -> list[EventRecord]:
        """Wait until its records show something and return them; fails the test if they do not, or if the process ends."""
        until_s = time.monotonic() + PATIENCE_S
        while not seen(records := self.records()):
            assert self.process.poll() is None, f"{self.process.name} {self.process.describe_end()}{self.process.tail_log()}"
            assert time.monotonic() < until_s, f"{what} was not seen within {PATIENCE_S} s; there is {records}"
            time.sleep(0.02)
        return records

    def wait_for(self, event: Event, times: int = 1) -> EventRecord:
        """Wait for so many of an event and return the last of them."""
        self.wait_until(lambda records: sum(record.event == event for record in records) >= times, f"{times} x {event}")
        return self.of(event)[times - 1]

    def end(self) -> None:
        """Ask it to end; fails the test if it does not do so by itself and without an error."""
        self.process.stop(PATIENCE_S)
        assert self.process.exit_code == 0, f"it {self.process.describe_end()}{self.process.tail_log()}"


def start_recording(
    processes: Supervisor, role: str, name: str, endpoint: Endpoint, queue: str, folder: Path, **document: object
) -> RecordingProcess:
    """Start a ``worker`` or ``producer`` and wait until it is ready; ``document``: what else it is told."""
    events = folder / f"{name}.csv"
    process = processes.start(
        name,
        role,
        [sys.executable, "-m", f"{role}s"],
        document={"name": name, "endpoint": endpoint.with_password(), "queue": queue, "events": str(events), **document},
        log=folder / f"{name}.log",
        ready=True,
    )
    process.wait_ready(PATIENCE_S)
    return RecordingProcess(process, events)
