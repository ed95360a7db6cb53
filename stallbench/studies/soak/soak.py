"""Carries out a soak, from its first cycle to its last. Each cycle has a run's folder below the soak's folder."""

from __future__ import annotations

import secrets
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Literal

from stallbench.base.duration import format_duration
from stallbench.errors import BadInputError, NotCarriedOutError, StallbenchError
from stallbench.pipeline.process import KeptPipeline
from stallbench.processes.reaper import is_bench_alive, start_reaper
from stallbench.processes.supervisor import Supervisor
from stallbench.report.conclusion import conclude
from stallbench.run.folder import RunFolder
from stallbench.run.record import describe_bench
from stallbench.run.recorder import RunRecorder
from stallbench.run.status import ending_recorded
from stallbench.scenario.chaos import with_seed
from stallbench.scenario.model import Scenario
from stallbench.servers.addresses import ExternalServers
from stallbench.studies.soak.cycle import Cycle, carry_over_snapshot
from stallbench.studies.soak.disk import (
    bound_bytes,
    choose_to_reduce,
    estimate_cycle_bytes,
    format_bytes,
    is_space_left,
    measure_bytes,
    remove_records,
    require_space,
)
from stallbench.studies.soak.figures import read_figures
from stallbench.studies.soak.folder import SoakFolder, create_soak_folder
from stallbench.studies.soak.plan import format_cycle_command
from stallbench.studies.soak.record import CycleRecord, SoakRecord
from stallbench.studies.soak.screen import SoakView
from stallbench.verdicts import RunTables


class Soak:
    """A soak that is carried out in this process; `begin` or `resume` creates its folder."""

    def __init__(
        self, folder: SoakFolder, record: SoakRecord, scenario: Scenario, view: SoakView, external: ExternalServers | None
    ) -> None:
        """Start nothing yet."""
        self.folder = folder
        self.record = record
        self._scenario = scenario
        self._view = view
        self._external = external
        self._server_set = 1 + max((cycle.server_set for cycle in record.cycles), default=0)
        self._cycle: Cycle | None = None
        """The running cycle, or the last one, whose processes are suspended."""
        self._pipeline = KeptPipeline()

    def describe_plan(self) -> str:
        """Return what is about to be done, and how much space it may take."""
        scenario, record = self._scenario, self.record
        bound = self._bound_bytes()
        cycles = "cycle" if record.planned_cycles == 1 else "cycles"
        done = f", {len(record.completed)} of them done" if record.completed else ""
        return (
            f"{scenario.name}{f', variant {scenario.variant}' if scenario.variant else ''}: {record.planned_cycles} {cycles} of "
            f"{format_duration(scenario.duration_s)}{done}; the records are in {self.folder.path} and take {format_bytes(bound)} at most"
        )

    def carry_out(self) -> None:
        """Carry out cycles until the planned number is completed; the record has the outcome of each.

        A cycle whose verdict is not ``pass`` does not end the soak. A cycle that cannot be carried out does: `NotCarriedOutError`.
        """
        status: Literal["completed", "failed", "aborted"] = "failed"
        reason = "the bench ended unexpectedly"
        with self._pipeline, self._prepare() as (processes, scratch):
            try:
                while len(self.record.completed) < self.record.planned_cycles:
                    self._require_space()
                    self._go_through_cycle(processes, scratch)
                status, reason = "completed", ""
            except KeyboardInterrupt:
                status, reason = "aborted", "interrupted"
                raise
            except StallbenchError as error:
                reason = str(error).partition("\n")[0]
                raise
            except OSError as error:
                reason = str(error)
                raise NotCarriedOutError(reason) from error
            finally:
                try:
                    if self._cycle is not None:
                        self._cycle.take_down()
                    processes.stop_all()
                finally:
                    self._write(self.record.with_end(status, reason))

    @contextmanager
    def _prepare(self) -> Iterator[tuple[Supervisor, Path]]:
        token = secrets.token_hex(8)
        scratch = Path(tempfile.mkdtemp(prefix="stallbench-"))
        # The reaper marks the record of the cycle that is running when the bench is killed.
        with start_reaper(token, record=self.folder.current.record, scratch=scratch):
            yield Supervisor(token, scratch=scratch), scratch

    def _bound_bytes(self) -> int:
        return bound_bytes(
            self._scenario,
            cycles=self.record.planned_cycles,
            keep=self.record.keep,
            done=self.record.completed,
            incomplete=self.record.incomplete,
        )

    def _require_space(self) -> None:
        bound = self._bound_bytes()
        self._write(self.record.model_copy(update={"bound_bytes": bound}))
        held = measure_bytes(self.folder.path)
        if held > bound:
            raise NotCarriedOutError(
                f"{self.folder.path} takes {format_bytes(held)}, more than its bound of {format_bytes(bound)}"
            )
        cycle_bytes = max([estimate_cycle_bytes(self._scenario), *(cycle.record_bytes for cycle in self.record.completed)])
        if not is_space_left(self.folder.path, cycle_bytes):
            raise NotCarriedOutError(
                f"{self.folder.path}: no space for another cycle; free some space, then: stallbench soak --continue"
            )

    def _go_through_cycle(self, processes: Supervisor, scratch: Path) -> None:
        """Carry one cycle out, make its tables while the load is suspended, and add it to the record."""
        number = 1 + len(self.record.cycles)
        began_s = time.monotonic()
        folder = self.folder.begin_cycle(number)
        if self._cycle is not None:
            carry_over_snapshot(self.folder.cycle(number - 1), folder)
        entry = CycleRecord(number=number, server_set=self._server_set, start_ns=time.time_ns())
        self._write(self.record.with_cycle(entry))
        left = self.record.planned_cycles - len(self.record.completed)
        self._view.say(f"cycle {number} begins; {left - 1} more follow")
        cycle = self._cycle = self._open_cycle(folder, processes, scratch, number)
        try:
            with ending_recorded(cycle.recorder, cycle.take_down, also_if_completed=False):
                cycle.carry_out()
            rested_s = time.monotonic()
            entry = self._judge(folder, entry.model_copy(update={"status": "completed", "left_over": cycle.left_over}))
        except KeyboardInterrupt:
            self._write(self.record.with_cycle(entry.model_copy(update={"status": "aborted", "reason": "interrupted"})))
            raise
        except NotCarriedOutError as error:
            reason = str(error).partition("\n")[0]
            self._write(self.record.with_cycle(entry.model_copy(update={"status": "failed", "reason": reason})))
            raise NotCarriedOutError(f"cycle {number} could not be carried out: {error}\nits records: {folder.path}") from error
        now_s = time.monotonic()
        entry = entry.model_copy(update={"spent_s": now_s - began_s, "resting_s": now_s - rested_s})
        self._write(self.record.with_cycle(entry))
        self._view.say(f"cycle {number}: {(entry.verdict or 'unknown').upper()}: {entry.reason}")
        self._remove_old_records()

    def _open_cycle(self, folder: RunFolder, processes: Supervisor, scratch: Path, number: int) -> Cycle:
        scenario = with_seed(self._scenario, self._scenario.seed + number - 1)
        recorder = RunRecorder(folder.record, scenario)
        recorder.note(f"Cycle {number} of the soak {self.folder.path.name}; what its processes printed is in the soak's logs.")
        if any(phase.chaos for phase in scenario.phases):
            sentence = f"The combined faults of cycle {number} have the seed {scenario.seed}; repeat them: {format_cycle_command(scenario)}"
            recorder.note(sentence)
            self._view.say(sentence)
        return Cycle(scenario, self.folder.current, recorder, processes, scratch, self._view, self._external, self._cycle)

    def _judge(self, folder: RunFolder, entry: CycleRecord) -> CycleRecord:
        """Make the tables, the verdict and the page. A cycle whose tables cannot be made is unknown; the soak continues."""
        try:
            verdict = conclude(folder, self._pipeline.make_tables)
            figures = read_figures(RunTables(folder.path))
        except (StallbenchError, OSError, subprocess.SubprocessError) as error:
            reason = f"its tables could not be made: {str(error).partition(chr(10))[0]}"
            return entry.model_copy(update={"verdict": "unknown", "reason": reason, **_sizes(folder)})
        return entry.model_copy(
            update={"verdict": verdict.verdict, "reason": verdict.reason, "figures": figures, **_sizes(folder)}
        )

    def _remove_old_records(self) -> None:
        for cycle in choose_to_reduce(self.record.cycles, self.record.keep):
            folder = self.folder.cycle(cycle.number)
            remove_records(folder)
            self._write(
                self.record.with_cycle(cycle.model_copy(update={"records_removed": True, "bytes": measure_bytes(folder.path)}))
            )

    def _write(self, record: SoakRecord) -> None:
        self.record = record
        self.folder.write(record)


def begin(
    scenario: Scenario, for_s: float, keep: int, runs: Path, external: ExternalServers | None
) -> tuple[SoakFolder, SoakRecord]:
    """Check the disk space and create a new soak's folder; raises `BadInputError` if there is too little space."""
    bound = bound_bytes(scenario, cycles=int(for_s / scenario.duration_s + 1e-9), keep=keep)
    require_space(runs, Path(tempfile.gettempdir()), bound, is_external=external is not None)
    folder = create_soak_folder(runs, scenario.name, scenario.variant)
    record = SoakRecord(
        id=folder.path.name,
        bench=describe_bench(),
        scenario=scenario,
        for_s=for_s,
        keep=keep,
        is_external=external is not None,
    )
    folder.write(record)
    return folder, record


def resume(folder: SoakFolder, keep: int | None, *, is_external: bool) -> SoakRecord:
    """Prepare a soak to continue after its last completed cycle; raises `BadInputError` if it cannot be resumed.

    A cycle in which the bench was killed is marked. ``keep`` replaces the value that the soak was begun with, if given.
    """
    record = folder.read()
    if record.status == "completed":
        raise BadInputError(f"{folder.path}: is complete; there is nothing to resume")
    if record.status == "running" and is_bench_alive(dict(record.bench)):
        raise BadInputError(f"{folder.path}: is running in process {record.bench.pid}; there is nothing to resume")
    if record.is_external != is_external:
        servers = "external: give --dsn and --database again" if record.is_external else "started by the bench: leave out --dsn"
        raise BadInputError(f"{folder.path}: its servers were {servers}")
    for cycle in record.cycles:
        if cycle.status == "running":
            record = record.with_cycle(cycle.model_copy(update={"status": "killed", "reason": "the bench was killed during it"}))
    if record.cycles:
        last = record.cycles[-1]
        fresh = "a new queue on the external servers" if is_external else "new servers and an empty queue"
        note = f"The soak was resumed after cycle {last.number} with {fresh}; drift is measured separately before and after."
        if last.status != "completed":
            note += f" Cycle {last.number} is {last.status} ({last.reason}); it is kept and not counted."
        record = record.with_note(note)
    # A killed bench did not end its faults inside workers; the new workers would read them.
    if folder.current.job_faults.exists():
        shutil.rmtree(folder.current.job_faults)
    changes = {"keep": record.keep if keep is None else keep}
    record = record.model_copy(update={"status": "running", "reason": "", "bench": describe_bench(), **changes})
    folder.write(record)
    return record


def _sizes(folder: RunFolder) -> dict[str, int]:
    size = measure_bytes(folder.path)
    return {"record_bytes": size, "bytes": size}
