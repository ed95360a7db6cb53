"""Workers and producers, started as the bench starts them, and the events that they record."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from stallbench.processes.process import Process
from stallbench.processes.role_command import role_command
from stallbench.processes.supervisor import Supervisor
from stallbench.records.endpoint import Endpoint
from stallbench.records.events import Event, EventRecord
from stallbench.records.reading import read_events
from stallbench.waiting import wait_until

PATIENCE_S = 60.0


@dataclass(frozen=True, slots=True)
class RecordingProcess:
    """A process that is ready, and its events."""

    process: Process
    path: Path

    def records(self) -> list[EventRecord]:
        """Return all events except the empty claims."""
        return [record for record in read_events(self.path) if record.event is not Event.EMPTY]

    def of(self, *events: Event) -> list[EventRecord]:
        """Return the records of some events."""
        return [record for record in self.records() if record.event in events]

    def wait_until(self, seen: Callable[[Sequence[EventRecord]], bool], what: str) -> list[EventRecord]:
        """Wait until its records show ``what`` and return them; fails the test if they do not, or if the process ends."""

        def is_seen() -> bool:
            if seen(self.records()):
                return True
            assert self.process.poll() is None, f"{self.process.name} {self.process.describe_end()}{self.process.tail_log()}"
            return False

        is_in_time = wait_until(is_seen, within_s=PATIENCE_S, every_s=0.02)
        assert is_in_time, f"{what} was not seen within {PATIENCE_S} s; there is {self.records()}"
        return self.records()

    def wait_for(self, event: Event, times: int = 1) -> EventRecord:
        """Wait until an event was recorded ``times`` times and return the last of them."""
        self.wait_until(lambda records: sum(record.event == event for record in records) >= times, f"{times} x {event}")
        return self.of(event)[times - 1]

    def end(self) -> None:
        """Ask it to stop; fails the test if it has to be killed or ends with an error."""
        self.process.stop(PATIENCE_S)
        assert self.process.exit_code == 0, f"it {self.process.describe_end()}{self.process.tail_log()}"


def start_recording(
    processes: Supervisor, role: str, name: str, endpoint: Endpoint, queue: str, folder: Path, **document: object
) -> RecordingProcess:
    """Start a ``worker`` or ``producer`` and wait until it is ready; ``document``: further fields of its document."""
    events = folder / f"{name}.csv"
    process = processes.start(
        name,
        role,
        role_command(f"{role}s"),
        document={"name": name, "endpoint": endpoint.with_password(), "queue": queue, "events": str(events), **document},
        log=folder / f"{name}.log",
        ready=True,
    )
    process.wait_ready(PATIENCE_S)
    return RecordingProcess(process, events)
