"""Plans what is tried on a queue: at which points a process is killed or paused, and the scenario of each run.

There are two runs, one that kills and one that pauses. A producer that was killed may have enqueued a batch without a record, and no more
(`stallbench.pipeline.unrecorded_enqueues`). In the run that only pauses, each job without a record is evidence.
"""

from __future__ import annotations

import random
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from stallbench.base.duration import format_duration
from stallbench.discovery import LIBRARY_PREFIX
from stallbench.engines.database import usual_engine
from stallbench.errors import BadInputError
from stallbench.injection.choices import FaultChoice
from stallbench.injection.faults.crash_point import CrashAtPoint, CrashPointOptions
from stallbench.injection.job_faults import Crash
from stallbench.queues import NoQueueError, Queue, find_queue, find_queues
from stallbench.queues.crash_points import CrashPoint
from stallbench.queues.queue import OptionRole
from stallbench.queues.user_queue import is_user_queue
from stallbench.run.recorder import describe_queue
from stallbench.scenario.file import make_scenario
from stallbench.scenario.model import Scenario
from stallbench.scenario.toml import format_toml
from stallbench.shell_command import format_shell_command
from stallbench.suggestion import did_you_mean

ACTIONS: tuple[Crash, ...] = ("kill", "pause")
EXPIRY_S = 3
"""How long claims last while a queue is tortured, if they expire. On a busy machine, a shorter time would let claims expire without a fault."""
LONGEST_EXPIRY_S = 4.0
"""Shorter than the last phase, which ends when no job has waited for five seconds. The pauses are longer."""
BEFORE = "before"
"""Name of the first phase, without a fault."""
SETTLING = "settling"
"""Name of the last phase, in which the queue must finish what is left."""
_BEFORE_S = 2.0
_KILL_S = 3.0
_KILL_OF_LIBRARY_S = 8.0
"""Each producer of a library starts a process of the library's own language, which takes seconds on a busy machine."""
_KILL_BETWEEN_STEPS_S = 9.0
"""There is one scheduler, and it must be killed once for each of its steps."""
_SHORT_PAUSE_S = 2.0
_AROUND_PAUSE_S = 2.5
"""Of a phase with a pause: the time until the process reaches the point, and the time after it is resumed."""
_AROUND_PAUSE_OF_LIBRARY_S = 8.0
"""The same for a worker of a library, which may sleep for seconds when it has found no job."""
_SETTLING_AT_MOST_S = 20.0
_PHASE_OF_CHANGE = re.compile(r"phases?\.([^.=]+)")
_IN_CALLS = (
    CrashPoint.BEFORE_ENQUEUE_ACKNOWLEDGED,
    CrashPoint.BEFORE_CLAIM_ACKNOWLEDGED,
    CrashPoint.BEFORE_COMPLETION_ACKNOWLEDGED,
    CrashPoint.BETWEEN_STEPS,
)
"""Points that an operation passes several times."""
_PROBABILITY = 0.15
_NTH = (2, 3, 4)


@dataclass(frozen=True, slots=True)
class Trial:
    """One point, and what happens there, in its own phase, which is named after the point."""

    point: CrashPoint
    action: Crash

    def draw_trigger(self, seed: int) -> dict[str, Any]:
        """Return what triggers it, as keys of the fault: the same in each plan with this seed, whatever else is in the plan."""
        drawn = random.Random(f"{seed} {self.point} {self.action}")
        if self.point in _IN_CALLS and self.action == "kill":
            return {"in_turn": True}
        if self.point in _IN_CALLS:
            return {"probability": _PROBABILITY, "seed": drawn.randrange(2**31)}
        return {"every_nth": drawn.choice(_NTH)}

    def is_tried_by(self, fault: FaultChoice) -> bool:
        """Whether a fault makes processes crash as this trial says."""
        if fault.kind != CrashAtPoint.kind:
            return False
        options = CrashPointOptions.model_validate(fault.options)
        return (options.at, options.action) == (self.point, self.action)

    @property
    def needs_expiry(self) -> bool:
        """Whether the process has a claim while it is paused. The pause must then be longer than the claim lasts."""
        return self.action == "pause" and self.point.role == "worker"


def name_phases(trials: Sequence[Trial]) -> frozenset[str]:
    """Return the names of the phases of a run with ``trials``."""
    return frozenset([BEFORE, *(str(trial.point) for trial in trials), SETTLING])


def find_phase(override: str) -> str | None:
    """Return the name of the phase that a change, ``key=value``, is about; none if it is about none."""
    found = _PHASE_OF_CHANGE.match(override)
    return found[1] if found else None


def list_trials(queue: type[Queue[Any]], *, has_scheduler: bool, expiry_s: float | None) -> list[Trial]:
    """Return everything that is tried on a queue whose claims last ``expiry_s``, in order.

    No worker is paused during a claim: its claim could be recorded before that of another worker that had the job first. A worker of a library is
    paused only if its claims are short, as an option may make them: most last for minutes, and a pause shows nothing before they expire.
    """
    pauses_workers = queue.worker_command() is None or (expiry_s is not None and expiry_s <= LONGEST_EXPIRY_S)
    return [
        Trial(point, action)
        for action in ACTIONS
        for point in CrashPoint
        if (point is not CrashPoint.BETWEEN_STEPS or has_scheduler)
        and not (point is CrashPoint.BEFORE_CLAIM_ACKNOWLEDGED and action == "pause")
        and (pauses_workers or point.role != "worker" or action == "kill")
        and (point.role != "worker" or queue.find_crash_point_issue(point) is None)
    ]


def _make_content(
    kind: str, engine: str, trials: Sequence[Trial], *, seed: int, expiry_option: str | None, expiry_s: float | None
) -> dict[str, Any]:
    """Return the scenario of one run, whose ``trials`` have one action, as its file has it.

    ``expiry_option``: the key that is set to `EXPIRY_S`, if any. ``expiry_s``: how long claims last; none if they do not expire.
    """
    does = "killed" if trials[0].action == "kill" else "paused until its claim has expired"
    return {
        "summary": f"A process is {does} at each crash point, one point after the other.",
        "seed": seed,
        "judge": "reproduced",  # by the checks, whose findings are attributed to the points
        "database": {"engine": engine},
        "queue": {"kind": kind, **({expiry_option: EXPIRY_S} if expiry_option else {})},
        "bystander": {"enabled": False},
        "producers": {"rate": 20, "max_batch": 10},
        # Workers poll so rarely that most claims find a job: a worker that dies in an empty claim shows nothing.
        "workers": {"count": 3, "work": "10ms", "poll": "300ms"},
        "phases": [
            {"name": BEFORE, "duration": format_duration(_BEFORE_S)},
            *(_make_phase(trial, seed, expiry_s, is_library=kind.startswith(LIBRARY_PREFIX)) for trial in trials),
            {"name": SETTLING, "duration": format_duration(_SETTLING_AT_MOST_S), "until": "caught_up", "measured": False},
        ],
    }


def _make_phase(trial: Trial, seed: int, expiry_s: float | None, *, is_library: bool) -> dict[str, Any]:
    """Return the phase of a trial, with its fault."""
    role = trial.point.role
    fault = {"kind": CrashAtPoint.kind, "at": str(trial.point), "action": trial.action, **trial.draw_trigger(seed)}
    if trial.action == "kill":
        kill_s = _KILL_OF_LIBRARY_S if is_library else _KILL_S
        duration_s = _KILL_BETWEEN_STEPS_S if trial.point is CrashPoint.BETWEEN_STEPS else kill_s
        fault |= {"on": role if role == "scheduler" else f"{role}s", "replace_after": "100ms"}
    else:
        # One process is paused, so that the others can do what it leaves.
        pause_s = _SHORT_PAUSE_S
        if trial.needs_expiry and expiry_s is not None:
            pause_s = expiry_s + _SHORT_PAUSE_S
        duration_s = pause_s + (_AROUND_PAUSE_OF_LIBRARY_S if is_library and role == "worker" else _AROUND_PAUSE_S)
        fault |= {"on": role if role == "scheduler" else f"{role}-1", "pause_for": format_duration(pause_s)}
    return {"name": str(trial.point), "duration": format_duration(duration_s), "measured": False, "faults": [fault]}


@dataclass(frozen=True, slots=True, kw_only=True)
class TorturePlan:
    """Everything that is tried on one queue."""

    kind: str
    engine: str
    seed: int
    overrides: tuple[str, ...]
    """Changes of the scenarios, as ``key=value``; that of a phase applies to the runs that have it."""
    phases: tuple[str, ...]
    """The names of the phases of all runs that were planned, in alphabetical order."""
    runs: tuple[tuple[Trial, ...], ...]
    """The trials of each run."""
    expiry_option: str | None
    expiry_s: float | None

    @property
    def title(self) -> str:
        """The queue without the path of its file."""
        return self.kind.rpartition(":")[2]

    @property
    def trials(self) -> list[Trial]:
        """All trials, in order."""
        return [trial for trials in self.runs for trial in trials]

    @property
    def command(self) -> str:
        """The command that repeats all trials with the same seed."""
        changes = [part for change in self.overrides for part in ("--set", change)]
        points = [part for point in dict.fromkeys(trial.point for trial in self.trials) for part in ("--point", str(point))]
        actions = {trial.action for trial in self.trials}
        action = ["--action", *actions] if len(actions) == 1 else []
        return format_shell_command(["stallbench", "torture", self.kind, *changes, "--seed", str(self.seed), *points, *action])

    def describe_command(self, trial: Trial) -> str:
        """Return the command that repeats one trial with the same seed."""
        changes = [part for change in self.select_overrides(name_phases([trial])) for part in ("--set", change)]
        points = ["--point", str(trial.point), "--action", trial.action]
        return format_shell_command(["stallbench", "torture", self.kind, *changes, "--seed", str(self.seed), *points])

    def select_overrides(self, phases: frozenset[str]) -> tuple[str, ...]:
        """Return the overrides for a scenario with ``phases``: without those of phases that only other runs have."""
        elsewhere = set(self.phases) - phases
        return tuple(each for each in self.overrides if find_phase(each) not in elsewhere)

    def read(self, trials: Sequence[Trial], folder: Path | None = None, name: str = "") -> Scenario:
        """Return the scenario of one run; raises `stallbench.scenario.file.ScenarioError`. ``folder``: where it is written, too. ``name``: of its file."""
        content = _make_content(
            self.kind, self.engine, trials, seed=self.seed, expiry_option=self.expiry_option, expiry_s=self.expiry_s
        )
        return self.make_scenario(content, name_phases(trials), folder, name or trials[0].action)

    def make_scenario(self, content: Mapping[str, Any], phases: frozenset[str], folder: Path | None, name: str) -> Scenario:
        """Return the scenario with ``content``, whose ``phases`` have these names, with the user's changes; writes and raises as `read` does."""
        file = (folder or Path()) / f"{name}.toml"
        if folder is not None:
            file.write_text(format_toml(content))
        where = f'queue "{self.kind}"'  # the user named a queue, and does not know the file
        return make_scenario(content, file, where=where, overrides=self.select_overrides(phases))


def plan_torture(
    kind: str, *, seed: int, overrides: Sequence[str], points: Sequence[CrashPoint], action: Crash | None
) -> TorturePlan:
    """Plan the torture of a queue: everything that can be tried on it, or only some ``points`` or one ``action``. Raises `BadInputError`."""
    try:
        queue = find_queue(kind)
    except NoQueueError as error:
        is_library = kind.startswith(LIBRARY_PREFIX)
        meant = "" if is_library or is_user_queue(kind) else did_you_mean(kind, find_queues())
        raise BadInputError(f'queue "{kind}"{":" if is_library else ""} {error}{meant}') from None
    plan = TorturePlan(
        kind=kind,
        engine=usual_engine(queue.engines),
        seed=seed,
        overrides=tuple(each for each in overrides if find_phase(each) is None),  # this plan has only one of the phases
        phases=(),
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
        phases=tuple(sorted(name_phases(trials))),
        runs=tuple(trials for trials in runs if trials),
        expiry_option=plan.expiry_option,
        expiry_s=expiry_s,
    )
    _require_valid(plan)
    return plan


def read_first_scenario(plan: TorturePlan) -> Scenario:
    """Return the scenario of the first run; raises `stallbench.scenario.file.ScenarioError`."""
    return plan.read(plan.runs[0])


def _find_expiry_option(queue: type[Queue[Any]]) -> str | None:
    """Return the option that sets how long claims last; none for libraries, whose claims last as long as by default or as the user says."""
    if queue.worker_command() is not None:
        return None
    return queue.options_type.find_option(OptionRole.EXPIRY)


def _require_valid(plan: TorturePlan) -> None:
    """Make the scenario of each run before the first one starts; raises `BadInputError` if it has an issue, or if a change has removed what is tried."""
    for trials in plan.runs:
        faults = {phase.name: phase.faults for phase in plan.read(trials).phases}
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


def name_queue(kind: str) -> str:
    """Return the name that the folder of a torture or of a test of conformance has for its queue."""
    return re.sub(r"[^a-z0-9_]+", "-", kind.rpartition(":")[2].lower()).strip("-")
