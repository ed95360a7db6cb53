"""Carries out the torture of one queue: plans it, does one run with kills and one with pauses, and judges both."""

from __future__ import annotations

import json
import re
import tempfile
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from stallbench import PROJECT
from stallbench.discovery import LIBRARY_PREFIX
from stallbench.engines import ENGINES
from stallbench.errors import BadInputError
from stallbench.injection.job_faults import Crash
from stallbench.libraries import list_names
from stallbench.pipeline.process import KeptPipeline
from stallbench.processes.reaper import name_temporary
from stallbench.queues import NoQueueError, Queue, find_queue, find_queues
from stallbench.queues.crash_points import CrashPoint
from stallbench.queues.queue import OptionRole
from stallbench.queues.user_queue import is_user_queue
from stallbench.run.conclusion import conclude
from stallbench.run.folder import RunFolder, create_folder
from stallbench.run.opening import open_run
from stallbench.run.recorder import describe_queue
from stallbench.run.view import RunView
from stallbench.scenario.file import ScenarioError, read_scenario
from stallbench.scenario.model import Scenario
from stallbench.scenario.toml import show_path
from stallbench.shell_command import format_shell_command
from stallbench.storage.atomic_file import replace_file
from stallbench.studies.torture.judgement import judge_run
from stallbench.studies.torture.outcome import TortureOutcome
from stallbench.studies.torture.plan import ACTIONS, LONGEST_EXPIRY_S, Trial, find_phase, list_trials, name_phases, write_scenario
from stallbench.suggestion import did_you_mean
from stallbench.verdicts import RunTables


@dataclass(frozen=True, slots=True, kw_only=True)
class TorturePlan:
    """Everything that is tried on one queue."""

    kind: str
    engine: str
    seed: int
    overrides: tuple[str, ...]
    """Changes of the scenarios, as ``key=value``; that of a phase applies to the runs that have it."""
    phases: frozenset[str]
    """The names of the phases of all runs that were planned."""
    runs: tuple[tuple[Trial, ...], ...]
    """The trials of each run."""
    expiry_option: str | None
    expiry_s: float | None

    @property
    def trials(self) -> list[Trial]:
        """All trials, in order."""
        return [trial for trials in self.runs for trial in trials]

    def describe_command(self, trial: Trial) -> str:
        """Return the command that repeats one trial with the same seed."""
        changes = [part for change in self.select_overrides(name_phases([trial])) for part in ("--set", change)]
        points = ["--point", str(trial.point), "--action", trial.action]
        return format_shell_command(["stallbench", "torture", self.kind, *changes, "--seed", str(self.seed), *points])

    def select_overrides(self, phases: frozenset[str]) -> tuple[str, ...]:
        """Return the overrides for a scenario with ``phases``: without those of phases that only other runs have."""
        elsewhere = self.phases - phases
        return tuple(each for each in self.overrides if find_phase(each) not in elsewhere)

    def read(self, trials: Sequence[Trial], folder: Path) -> Scenario:
        """Write the scenario of one run into ``folder`` and read it; raises `stallbench.scenario.file.ScenarioError`."""
        file = folder / f"{trials[0].action}.toml"
        file.write_text(
            write_scenario(
                self.kind,
                self.engine,
                trials,
                seed=self.seed,
                expiry_option=self.expiry_option,
                expiry_s=self.expiry_s,
            )
        )
        try:
            return read_scenario(str(file), overrides=self.select_overrides(name_phases(trials)))
        except ScenarioError as error:  # the user named a queue, and does not know the file
            made = f"{show_path(file, PROJECT)}: "
            raise ScenarioError([f'queue "{self.kind}": {issue.removeprefix(made)}' for issue in error.issues]) from None


def plan_torture(
    kind: str, *, seed: int, overrides: Sequence[str], points: Sequence[CrashPoint], action: Crash | None
) -> TorturePlan:
    """Plan the torture of a queue: everything that can be tried on it, or only some ``points`` or one ``action``. Raises `BadInputError`."""
    try:
        queue = find_queue(kind)
    except NoQueueError as error:
        is_library = kind.startswith(LIBRARY_PREFIX)
        known = list_names() if is_library else find_queues()
        meant = did_you_mean(kind.removeprefix(LIBRARY_PREFIX), known) if is_library or not is_user_queue(kind) else ""
        raise BadInputError(f'queue "{kind}"{":" if is_library else ""} {error}{meant}') from None
    plan = TorturePlan(
        kind=kind,
        engine=next(engine for engine in ENGINES if engine in queue.engines),
        seed=seed,
        overrides=tuple(each for each in overrides if find_phase(each) is None),  # this plan has only one of the phases
        phases=frozenset(),
        runs=((Trial(CrashPoint.BEFORE_ENQUEUE_ACKNOWLEDGED, "kill"),),),
        expiry_option=_find_expiry_option(queue),
        expiry_s=None,
    )
    scenario = read_first_scenario(plan)
    changed = scenario.queue.kind
    # The path of a user's queue may be written differently.
    if changed != kind and not (is_user_queue(kind) and is_user_queue(changed)):
        raise BadInputError(
            f'--set queue.kind is "{changed}", but the queue of this torture is {kind}; leave it out, or name {changed} instead'
        )
    expiry_s = describe_queue(scenario).expiry_s
    trials = _choose(queue, scenario, points, action, expiry_s)
    if expiry_s is not None and expiry_s > LONGEST_EXPIRY_S and any(trial.needs_expiry for trial in trials):
        raise BadInputError(
            f"claims of {kind} last {expiry_s:g} s; torture waits until they have expired, so they may last {LONGEST_EXPIRY_S:g} s at most"
            + (f", like --set queue.{plan.expiry_option}=3" if plan.expiry_option else "")
        )
    runs = tuple(tuple(trial for trial in trials if trial.action == each) for each in ACTIONS)
    plan = TorturePlan(
        kind=kind,
        engine=scenario.database.engine,
        seed=seed,
        overrides=tuple(overrides),
        phases=name_phases(trials),
        runs=tuple(trials for trials in runs if trials),
        expiry_option=plan.expiry_option,
        expiry_s=expiry_s,
    )
    _require_valid(plan)
    return plan


def read_first_scenario(plan: TorturePlan) -> Scenario:
    """Return the scenario of the first run; raises `stallbench.scenario.file.ScenarioError`."""
    with tempfile.TemporaryDirectory(prefix=name_temporary("torture")) as scratch:
        return plan.read(plan.runs[0], Path(scratch))


def _find_expiry_option(queue: type[Queue[Any]]) -> str | None:
    """Return the option that sets how long claims last; none for libraries, whose claims last as long as by default or as the user says."""
    if queue.worker_command() is not None:
        return None
    return queue.options_type.find_option(OptionRole.EXPIRY)


def _require_valid(plan: TorturePlan) -> None:
    """Read the scenario of each run before the first one starts; raises `BadInputError` if it has an issue, or if a change has removed what is tried."""
    with tempfile.TemporaryDirectory(prefix=name_temporary("torture")) as scratch:
        for trials in plan.runs:
            faults = {phase.name: phase.faults for phase in plan.read(trials, Path(scratch)).phases}
            for trial in trials:
                if not any(map(trial.is_tried_by, faults.get(trial.point, ()))):
                    raise BadInputError(
                        f"--set phases.{trial.point}.faults has no crash_point that {trial.action}s at {trial.point}, which is to be tried there; "
                        "leave the change out, or add one"
                    )


def _choose(
    queue: type[Queue[Any]], scenario: Scenario, points: Sequence[CrashPoint], action: Crash | None, expiry_s: float | None
) -> list[Trial]:
    options = queue.options_type.model_validate(scenario.queue.options)
    possible = list_trials(queue, has_scheduler=queue.has_scheduler(options), expiry_s=expiry_s)
    for point in points:
        if not any(trial.point is point and action in (None, trial.action) for trial in possible):
            what = f"nothing can be tried at {point}" + (f" with {action}" if action else "")
            allowed = dict.fromkeys(str(trial.point) for trial in possible if action in (None, trial.action))
            hint, option = "", queue.options_type.find_option(OptionRole.EXPIRY)
            if action == "pause" and point.role == "worker" and option and queue.find_crash_point_issue(point) is None:
                hint = (
                    f". Its workers are paused if their claims last {LONGEST_EXPIRY_S:g} s at most, like --set queue.{option}=3"
                )
            raise BadInputError(f"{what} for {queue.kind}; expected one of {', '.join(allowed)}{hint}")
    return [trial for trial in possible if (not points or trial.point in points) and action in (None, trial.action)]


def torture(plan: TorturePlan, runs: Path, view: RunView) -> tuple[Path, TortureOutcome]:
    """Carry out the plan in a new folder below ``runs``, and write the outcome to ``torture.json``; returns the folder and the outcome.

    Raises `stallbench.errors.NotCarriedOutError` if a run could not be carried out.
    """
    folder = create_folder(runs, "torture", re.sub(r"[^a-z0-9_]+", "-", plan.kind.rpartition(":")[2].lower()))
    outcomes = []
    done: list[tuple[RunFolder, Sequence[Trial]]] = []
    for of_run in plan.runs:
        with open_run(plan.read(of_run, folder), folder, view, is_latest=False) as run:
            run.carry_out()
            done.append((run.folder, of_run))
    with KeptPipeline() as pipeline:
        for run_folder, trials in done:
            view.say(f"making the tables and the verdict of {run_folder.path.name}")
            verdict = conclude(run_folder, pipeline.make_tables)
            outcomes.append(judge_run(RunTables(run_folder.path), verdict, trials))
    outcome = TortureOutcome.merge(outcomes)
    record = {"format": 1, "queue": plan.kind, "engine": plan.engine, "seed": plan.seed, **asdict(outcome)}
    replace_file(folder / "torture.json", json.dumps(record, indent=1))
    return folder, outcome
