"""One cycle of a soak: a run that takes over servers, queue and processes from the previous cycle. At its end the load is suspended."""

from __future__ import annotations

import time
from pathlib import Path

from stallbench.processes.record import ProcessRecord
from stallbench.processes.supervisor import Supervisor
from stallbench.run.folder import RunFolder
from stallbench.run.recorder import RunRecorder
from stallbench.run.run import Run
from stallbench.run.view import RunView
from stallbench.scenario.model import Scenario
from stallbench.servers.addresses import ExternalServers
from stallbench.studies.soak.folder import CycleFolder


class Cycle(Run):
    """A run with its own phases, longrunners, faults and collectors; all cycles share servers, tables, producers and workers."""

    def __init__(
        self,
        scenario: Scenario,
        folder: CycleFolder,
        recorder: RunRecorder,
        processes: Supervisor,
        scratch: Path,
        view: RunView,
        external: ExternalServers | None,
        before: Cycle | None,
    ) -> None:
        """Start nothing yet. ``before``: the cycle whose servers and processes are taken over; none for the first cycle on its servers."""
        super().__init__(scenario, folder, recorder, processes, scratch, view, external)
        self.start_ns = time.time_ns()
        self.left_over = 0
        """Jobs that the queue held at the end."""
        self._before = before
        if before is not None:
            self._cluster = before._cluster
            self._load = before._load
            self._injection_numbers = before._injection_numbers
            self._journal = before._journal
            before._before = None
            processes.forget_ended()
        recorder.follow("processes", self.process_records)

    def carry_out(self) -> None:
        """Carry the phases out and suspend the load; raises as `Run.carry_out` does."""
        if self._before is None:
            self._start_servers()
            self._install_queue()
        else:
            self._record_servers()
        self._start_collectors()
        self._start_load()
        for index, phase in enumerate(self.scenario.phases):
            self._run_phase(index, phase)
        self._suspend_load()
        self.left_over = self._take_final_snapshot()

    def process_records(self) -> list[ProcessRecord]:
        """Return every process that ran in this cycle."""
        return [record for record in super().process_records() if record.end_ns is None or record.end_ns >= self.start_ns]

    def _fill_and_start(self) -> int:
        if self._before is None:
            return super()._fill_and_start()
        backlog = self.load.fill()
        self._start_maintenance()
        if fresh := self.load.resume():
            self.recorder.note(f"{', '.join(fresh)} had to be started, because the processes of the previous cycle were gone.")
        return backlog

    def _suspend_load(self) -> None:
        self.injections.end_all()
        of_faults = (record.longest_job_s or 0.0 for record in self.injections.records())
        self.load.suspend(max([self.scenario.workers.work_s, *of_faults]))
        self.recorder.write()
        self._check_processes()


def carry_over_snapshot(ended: RunFolder, next_: RunFolder) -> None:
    """Copy the final snapshot to the next cycle: the jobs that the queue already holds. Raises `OSError` if there is none."""
    next_.left_over.write_bytes(ended.final_snapshot.read_bytes())
