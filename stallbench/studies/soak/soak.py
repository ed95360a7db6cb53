"""Carries out a soak, from its first cycle to its last. Each cycle has a run's folder below the soak's folder."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
import time
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from stallbench.base.duration import format_duration
from stallbench.base.number_text import format_bytes
from stallbench.errors import BadInputError, NotCarriedOutError, StallbenchError
from stallbench.records.reading import read_held_count
from stallbench.report.outcome_text import describe_verdict, name_verdict
from stallbench.run.capacity import with_measured_load
from stallbench.run.folder import RunFolder
from stallbench.run.record import describe_bench, read_record
from stallbench.scenario.chaos import with_seed
from stallbench.scenario.model import Scenario
from stallbench.servers.addresses import ExternalServers
from stallbench.studies.soak.cycle import Cycles
from stallbench.studies.soak.disk import (
    bound_bytes,
    choose_to_reduce,
    estimate_cycle_bytes,
    is_space_left,
    measure_bytes,
    remove_records,
    require_space,
)
from stallbench.studies.soak.figures import read_figures
from stallbench.studies.soak.folder import SoakFolder, create_soak_folder
from stallbench.studies.soak.plan import FindServers, SoakPlan, find_external, read_scenario_again, require_fit_for_soak
from stallbench.studies.soak.record import CycleRun, SoakRecord
from stallbench.studies.soak.screen import SoakView
from stallbench.studies.study import Runner, Say, Study
from stallbench.verdicts import RunTables
from stallbench.verdicts.baseline.against import write_against
from stallbench.visible_text import say


class Soak(Study[SoakRecord, CycleRun]):
    """Cycles until the planned number is completed. One whose verdict is not ``pass`` does not end the soak."""

    folder: SoakFolder

    def __init__(self, folder: SoakFolder, record: SoakRecord, runner: Runner, say: Say, scenario: Scenario) -> None:
        """Start nothing yet. ``scenario``: as its file is read now, by which processes of the queue are started."""
        super().__init__(folder, record, runner, say)
        self._scenario = scenario
        self._server_set = 1 + max((cycle.server_set for cycle in record.runs), default=0)
        self._began_s = 0.0

    def prepare(self) -> None:
        """Say what is about to be done, and how much space it may take."""
        scenario, record = self._scenario, self.record
        cycles = "cycle" if record.planned_cycles == 1 else "cycles"
        done = f", {len(record.completed)} of them done" if record.completed else ""
        self.say(
            f"{scenario.name}{f', variant {scenario.variant}' if scenario.variant else ''}: {record.planned_cycles} {cycles} of "
            f"{format_duration(scenario.duration_s)}{done}; the records are in {self.folder.path} and take "
            f"{format_bytes(self._bound_bytes())} at most"
        )

    def next_run(self) -> CycleRun | None:
        """Return the next cycle. Raises `NotCarriedOutError` if there is no space for it."""
        self._remove_old_records()
        left = self.record.planned_cycles - len(self.record.completed)
        if left <= 0:
            return None
        self._require_space()
        number = 1 + len(self.record.runs)
        self.say(f"cycle {number} begins; {left - 1} more follow")
        self._began_s = time.monotonic()
        return CycleRun(number=number, server_set=self._server_set, start_ns=time.time_ns())

    def scenario_of(self, run: CycleRun) -> Scenario:
        """Return the scenario with a seed of the cycle's own."""
        return with_seed(self._scenario, self._scenario.seed + run.number - 1)

    def judge(self, run: CycleRun, folder: RunFolder) -> CycleRun:
        """Make tables, verdict and page while the load is suspended. A cycle whose tables cannot be made is unknown; the soak continues."""
        rested_s = time.monotonic()
        found: dict[str, object]
        try:
            verdict = self.runner.conclude(folder)
            record, figures = read_record(folder.record), read_figures(RunTables(folder.path))
            said = describe_verdict(record, verdict)
            found = {"verdict": verdict.verdict, "verdict_name": name_verdict(record, verdict), "figures": figures}
            found["reason"] = verdict.reason
        except (StallbenchError, OSError, subprocess.SubprocessError) as error:
            why = f"its tables could not be made: {str(error).partition(chr(10))[0]}"
            found, said = {"verdict": "unknown", "reason": why}, f"Unknown: {why}."
        now_s, size = time.monotonic(), measure_bytes(folder.path)
        found |= {"spent_s": now_s - self._began_s, "pause_s": now_s - rested_s, "record_bytes": size, "bytes": size}
        run = run.model_copy(update={**found, "left_over": read_held_count(folder.final_snapshot)})
        self.say(f"{self.title_of(run)}: {said}")
        return run

    def title_of(self, run: CycleRun) -> str:
        """Return its number."""
        return f"cycle {run.number}"

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
        self.record = self.record.model_copy(update={"bound_bytes": bound})
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

    def _remove_old_records(self) -> None:
        for cycle in choose_to_reduce(self.record.runs, self.record.keep):
            folder = self.folder.cycle(cycle.number)
            remove_records(folder)
            size = measure_bytes(folder.path)
            self.record = self.record.with_run(cycle.model_copy(update={"records_removed": True, "bytes": size}))
            self.folder.write(self.record)


def carry_out_soak(plan: SoakPlan, runs: Path, runner: Runner | None = None) -> tuple[SoakFolder, SoakRecord]:
    """Carry the plan out in a new folder below ``runs``; returns the folder and its record, which has the outcome of each cycle.

    ``runner``: carries out the single cycles; `Cycles` if none. Raises `BadInputError` if there is too little space, `NotCarriedOutError` if the
    folder cannot be created, or if the capacity of the workers cannot be measured.
    """
    plan = replace(plan, scenario=with_measured_load(plan.scenario, _say, runs, plan.external))
    bound = bound_bytes(plan.scenario, cycles=int(plan.for_s / plan.scenario.duration_s + 1e-9), keep=plan.keep)
    require_space(runs, Path(tempfile.gettempdir()), bound, is_external=plan.external is not None)
    folder = create_soak_folder(runs, plan.scenario.name, plan.scenario.variant)
    record = SoakRecord(
        id=folder.path.name,
        bench=describe_bench(),
        scenario=plan.scenario,
        for_s=plan.for_s,
        keep=plan.keep,
        is_external=plan.external is not None,
    )
    folder.write(record)
    if plan.against:
        write_against(folder.path, plan.against)
    return folder, _carry_out_cycles(folder, record, plan.scenario, plan.external, runner)


def continue_soak(folder: SoakFolder, keep: int | None, find_servers: FindServers, runner: Runner | None = None) -> SoakRecord:
    """Carry out the cycles that a soak lacks after its last completed one. Raises `BadInputError` if it cannot be continued.

    ``keep`` replaces the value that the soak was begun with, if given.
    """
    record = folder.read_to_continue()
    record.require_lacking(folder.path)
    scenario = read_scenario_again(record.scenario)
    require_fit_for_soak(scenario)
    external = find_external(scenario, find_servers)
    if record.is_external != (external is not None):
        servers = "external: give --dsn and --database again" if record.is_external else "started by the bench: leave out --dsn"
        raise BadInputError(f"{folder.path}: its servers were {servers}")
    record = record.continued()
    if record.runs:
        last = record.runs[-1]
        fresh = "a new queue on the external servers" if external else "new servers and an empty queue"
        note = f"The soak was continued after cycle {last.number} with {fresh}; drift is measured separately before and after."
        if last.status != "completed":
            note += f" Cycle {last.number} is {last.status} ({last.reason}); it is kept and not counted."
        record = record.with_note(note)
    # A killed bench did not end its faults inside workers; the new workers would read them.
    if folder.current.job_faults.exists():
        shutil.rmtree(folder.current.job_faults)
    record = record.model_copy(update={"keep": record.keep if keep is None else keep})
    folder.write(record)
    return _carry_out_cycles(folder, record, scenario, external, runner)


def _carry_out_cycles(
    folder: SoakFolder, record: SoakRecord, scenario: Scenario, external: ExternalServers | None, runner: Runner | None
) -> SoakRecord:
    view = SoakView(folder.log)
    runner = runner or Cycles(folder, view, external, next_number=1 + len(record.runs))
    return Soak(folder, record, runner, view.say, scenario).carry_out()


def _say(sentence: str) -> None:
    """Print a message at once, or drop it if the terminal is closed."""
    with suppress(OSError):
        say(sentence, flush=True)
