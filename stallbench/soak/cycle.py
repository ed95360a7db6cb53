"""One cycle of a soak: a run that takes over the servers, the queue and the processes of the one before, and leaves them at rest."""

from __future__ import annotations

import time
from pathlib import Path

from stallbench.external.addresses import ExternalServers
from stallbench.processes.record import ProcessRecord
from stallbench.processes.supervisor import Supervisor
from stallbench.run.folder import RunFolder
from stallbench.run.record import RunRecord
from stallbench.run.run import Run
from stallbench.run.view import RunView
from stallbench.scenario.model import Scenario
from stallbench.soak.folder import CycleFolder


class Cycle(Run):
    """Every cycle has phases, longrunners, faults and collectors of its own; servers, tables, producers and workers live through all."""

    def __init__(
        self,
        scenario: Scenario,
        folder: CycleFolder,
        record: RunRecord,
        processes: Supervisor,
        scratch: Path,
        view: RunView,
        joined: ExternalServers | None,
        before: Cycle | None,
    ) -> None:
        """Hold the parts together. ``before``: the cycle whose servers and processes go on; the first of a stretch has none."""
        super().__init__(scenario, folder, record, processes, scratch, view, joined)
        self.start_ns = time.time_ns()
        self.left_over = 0
        """Jobs that the queue held at the end."""
        self._before = before
        if before is not None:
            self._cluster = before._cluster
            self._load = before._load
            self._died = before._died
            self._injection_numbers = before._injection_numbers
            self._journal = before._journal
            before._before = None
        record.follow("processes", self.process_records)

    def carry_out(self) -> None:
        """Carry the phases out and leave the load at rest; raises as `Run.carry_out` does."""
        if self._before is None:
            self._start_servers()
            self._install_queue()
        else:
            self._watch_over_servers()
        self._start_collectors()
        self._start_load()
        for index, phase in enumerate(self.scenario.phases):
            self._go_through(index, phase)
        self._rest_load()
        self.left_over = self._take_final_snapshot()

    def process_records(self) -> list[ProcessRecord]:
        """Return every process that lived in this cycle."""
        return [record for record in super().process_records() if record.end_ns is None or record.end_ns >= self.start_ns]

    def _fill_and_start(self) -> int:
        if self._before is None:
            return super()._fill_and_start()
        backlog = self.load.fill()
        self._start_maintenance()
        if fresh := self.load.resume():
            self.record.note(f"{', '.join(fresh)} had to be started for processes that were gone since the cycle before.")
        return backlog

    def _rest_load(self) -> None:
        self.injections.end_all()
        self.load.suspend()
        self.record.write()
        self._check_processes()


def carry_over_snapshot(ended: RunFolder, next_: RunFolder) -> None:
    """Let the next cycle know which jobs the queue holds already; raises `OSError` if there is no final snapshot."""
    next_.left_over.write_bytes(ended.final_snapshot.read_bytes())
