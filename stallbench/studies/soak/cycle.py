"""One cycle of a soak: a run that takes over servers, queue and processes from the previous cycle. At its end the load is suspended."""

from __future__ import annotations

import secrets
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Self

from stallbench.errors import NotCarriedOutError
from stallbench.processes.reaper import start_reaper
from stallbench.processes.record import ProcessRecord
from stallbench.processes.supervisor import Supervisor
from stallbench.run.bystander.process import stop_bystander
from stallbench.run.folder import RunFolder
from stallbench.run.recorder import RunRecorder
from stallbench.run.run import Run
from stallbench.run.status import ending_recorded
from stallbench.run.view import RunView
from stallbench.scenario.model import Scenario
from stallbench.servers.addresses import ExternalServers
from stallbench.studies.soak.folder import CycleFolder, SoakFolder
from stallbench.studies.soak.plan import format_cycle_command
from stallbench.studies.study import SeparateRuns


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
        self._before = before
        if before is not None:
            self._cluster = before._cluster
            self._load = before._load
            self._injection_numbers = before._injection_numbers
            self._journal = before._journal
            self._has_bystander = before._has_bystander
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
        self._run_phases()
        self._suspend_load()
        self._take_final_snapshot()

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
        stop_bystander(self._processes)
        self.load.suspend(max([self.scenario.workers.work_s, *of_faults]))
        self.recorder.write()
        self._check_processes()


class Cycles(SeparateRuns):
    """A `stallbench.studies.study.Runner` that carries all runs out on the same servers, with the same processes."""

    def __init__(self, folder: SoakFolder, view: RunView, external: ExternalServers | None, *, next_number: int) -> None:
        """Start nothing yet. ``external``: the servers, if they are not the bench's own. ``next_number``: of the first cycle on these servers."""
        super().__init__(is_latest=False)
        self._folder = folder
        self._soak_view = view
        self._external = external
        self._number = next_number
        self._cycle: Cycle | None = None
        """The running cycle, or the last one, whose processes are suspended."""
        self._reaper = ExitStack()

    def __enter__(self) -> Self:
        """Start the reaper, which marks the record of the cycle that is running when the bench is killed."""
        token = secrets.token_hex(8)
        self._scratch = Path(tempfile.mkdtemp(prefix="stallbench-"))
        self._reaper.enter_context(start_reaper(token, record=self._folder.current.record, scratch=self._scratch))
        self._processes = Supervisor(token, scratch=self._scratch)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        """End the servers and all processes."""
        with self._reaper:
            try:
                if self._cycle is not None:
                    self._cycle.take_down()
            finally:
                self._processes.stop_all()
                super().__exit__(kind, error, trace)

    def carry_out(self, scenario: Scenario, runs: Path, begun: Callable[[RunFolder], None]) -> RunFolder:
        """Carry the next cycle out; the load is suspended then, until the next one or the end."""
        number, self._number = self._number, self._number + 1
        folder = self._folder.begin_cycle(number)
        begun(folder)
        if self._cycle is not None:
            _carry_over_snapshot(self._folder.cycle(number - 1), folder)
        cycle = self._cycle = self._open(folder, scenario, number)
        try:
            with ending_recorded(cycle.recorder, cycle.take_down, also_if_completed=False):
                cycle.carry_out()
        except NotCarriedOutError as error:
            raise NotCarriedOutError(f"{error}\nits records: {folder.path}") from error
        return folder

    def _open(self, folder: RunFolder, scenario: Scenario, number: int) -> Cycle:
        recorder = RunRecorder(folder.record, scenario)
        recorder.note(f"Cycle {number} of the soak {self._folder.path.name}; what its processes printed is in the soak's logs.")
        if any(phase.chaos for phase in scenario.phases):
            sentence = f"The combined faults of cycle {number} have the seed {scenario.seed}; repeat them: {format_cycle_command(scenario)}"
            recorder.note(sentence)
            self._soak_view.say(sentence)
        return Cycle(
            scenario, self._folder.current, recorder, self._processes, self._scratch, self._soak_view, self._external, self._cycle
        )


def _carry_over_snapshot(ended: RunFolder, next_: RunFolder) -> None:
    """Copy the final snapshot to the next cycle: the jobs that the queue already holds. Raises `OSError` if there is none."""
    next_.left_over.write_bytes(ended.final_snapshot.read_bytes())
