"""Carries out the search for a limit: plans it, and runs one probe after the other within a time bound."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path

from stallbench.discovery import LIBRARY_PREFIX
from stallbench.errors import BadInputError
from stallbench.run.folder import RunFolder
from stallbench.run.view import RunView
from stallbench.scenario.file import read_scenario
from stallbench.scenario.model import Scenario
from stallbench.studies.limit.probes import Horizon, find_held_phase, judge_probe, make_probe_scenario
from stallbench.studies.limit.record import LimitFolder, LimitPlan, LimitRecord, LimitRun, begin_search
from stallbench.studies.limit.regression import find_allowed_rate, find_baseline_rate, require_comparable_search
from stallbench.studies.limit.slo import Slo
from stallbench.studies.study import Runner, Say, SeparateRuns, Study
from stallbench.verdicts import RunTables
from stallbench.verdicts.baseline.against import BaselineChoice, read_against, write_against

_START_SHARE = 0.5
"""The first rate, as a share of the workers' capacity on a full queue."""
_OF_OWN_WORKERS = ("claim_ms", "claim_call_ms", "complete_ms")
"""Measures of calls that only the bench's own workers record."""
_OVERHEAD_S = 25.0
"""Assumed time of a probe outside of its phases, until one has been measured."""


def plan_limit(
    name_or_path: str,
    *,
    slo: Slo,
    variant: str | None,
    overrides: Sequence[str],
    horizon: Horizon | None,
    duration_s: float,
    within_s: float,
    precision: float,
    start_rate: float | None,
    confirms: bool = True,
    against: BaselineChoice | None = None,
) -> LimitPlan:
    """Plan the search: with the horizon free and held, if ``horizon`` is none. Raises `ScenarioError` or `BadInputError`.

    ``against``: the baseline that the limits are compared with.
    """
    scenario = read_scenario(name_or_path, variant=variant, overrides=overrides)
    if scenario.producers.by_locust:
        raise BadInputError(
            f"{scenario.file}: producers.kind is locust, whose number of users limits the rate; expected open_loop"
        )
    if not scenario.collectors.enabled:
        raise BadInputError(
            f"{scenario.file}: collectors.enabled is false, but `limit` needs samples of the depth of the queue; leave it out"
        )
    if scenario.queue.kind.startswith(LIBRARY_PREFIX) and slo.metric.partition(".")[0] in _OF_OWN_WORKERS:
        raise BadInputError(
            f"--slo {slo.text}: the worker of {scenario.queue.kind} does not show the times of its calls; expected another metric, "
            "like latency_ms.p95 or pickup_ms.p95"
        )
    if horizon == "held" and find_held_phase(scenario) is None:
        raise BadInputError(f"--horizon held: {scenario.file} has no measured phase with a longrunner; expected --horizon free")
    every: tuple[Horizon, ...] = ("free", "held") if find_held_phase(scenario) else ("free",)
    horizons = (horizon,) if horizon else every
    if within_s < (least_s := len(horizons) * (duration_s + _OVERHEAD_S)):
        probes, take = (
            (f"one probe of {duration_s:g} s", "takes")
            if len(horizons) == 1
            else (f"a probe of {duration_s:g} s with the horizon free and one with it held", "take")
        )
        raise BadInputError(f"--within {within_s:g}s: is too short for {probes}, which {take} about {least_s:.0f} s")
    plan = LimitPlan(
        scenario=scenario,
        slo=slo,
        horizons=horizons,
        duration_s=duration_s,
        within_s=within_s,
        precision=precision,
        confirms=confirms,
        start_rate=start_rate,
        against=against,
    )
    require_comparable_search(plan)
    return plan


def find_limits(plan: LimitPlan, runs: Path, say: Say, runner: Runner | None = None) -> tuple[LimitFolder, LimitRecord]:
    """Carry out the plan in a new folder below ``runs``; returns the folder and its record. A probe that cannot be carried out ends the search; the
    record has the reason, and the results until then. ``runner``: carries out the single runs; `SeparateRuns` if none.

    Raises `NotCarriedOutError` if the folder cannot be created.
    """
    folder, record = begin_search(plan, runs)
    if plan.against:
        write_against(folder.path, plan.against)
    return folder, LimitSearch(folder, record, runner or _separate_runs(), say, plan).carry_out()


def continue_search(folder: LimitFolder, within_s: float, say: Say, runner: Runner | None = None) -> LimitRecord:
    """Try the rates that a search lacks, because it ended early or its time did, for ``within_s``.

    Raises `BadInputError` if there is no such rate, or if a process carries the search out.
    """
    record = folder.read_to_continue()
    if all(limit.is_complete for limit in record.find_limits()):
        record.require_lacking(folder.path)
    plan = replace(record.plan, within_s=within_s, against=read_against(folder.path))
    record = record.continued().model_copy(update={"plan": replace(plan, against=None), "limits": ()})
    return LimitSearch(folder, record, runner or _separate_runs(), say, plan).carry_out()


class LimitSearch(Study[LimitRecord, LimitRun]):
    """The probes with the horizon free, then with it held, each until no rate is left to try or its share of the time is over."""

    def __init__(self, folder: LimitFolder, record: LimitRecord, runner: Runner, say: Say, plan: LimitPlan) -> None:
        """Start nothing yet. ``plan``: with the baseline, which the record does not have."""
        super().__init__(folder, record, runner, say)
        self._plan = plan
        self._waiting = list(plan.horizons)
        """Whose search is not over, the present one first."""
        self._end_s = 0.0
        self._end_of_horizon_s: float | None = None
        """When the present search must end; none before it has begun."""
        self._longest_s = plan.duration_s + _OVERHEAD_S
        """What a probe takes; as measured, as soon as one was."""
        self._measured_s: list[float] = []
        self._began_s = 0.0

    def prepare(self) -> None:
        """Choose the first rates; measure the capacity if they depend on it."""
        self._end_s = time.monotonic() + self._plan.within_s
        if self.record.starts:
            return
        plan = self._plan
        starts = {horizon: plan.start_rate or find_baseline_rate(plan, horizon) for horizon in plan.horizons}
        if None in starts.values():
            capacity = self.runner.measure_capacity(plan.scenario, self.say, self.folder.path)
            self.record = self.record.model_copy(update={"capacity": capacity})
            starts = {horizon: start or _START_SHARE * capacity for horizon, start in starts.items()}
        allowed = {horizon: rate for horizon in plan.horizons if (rate := find_allowed_rate(plan, horizon)) is not None}
        self.record = self.record.model_copy(update={"starts": starts, "allowed": allowed})
        self.folder.write(self.record)

    def next_run(self) -> LimitRun | None:
        """Return the next probe, unless it would exceed the time."""
        while self._waiting:
            horizon, now_s = self._waiting[0], time.monotonic()
            if self._end_of_horizon_s is None:
                self.say(f"horizon {horizon}:")
                self._end_of_horizon_s = now_s + (self._end_s - now_s) / len(self._waiting)
            rate = self.record.find_next_rate(horizon)
            if rate is not None and now_s + max(self._measured_s, default=self._longest_s) <= self._end_of_horizon_s:
                self._began_s = now_s
                return LimitRun(number=len(self.record.runs) + 1, horizon=horizon, rate=rate)
            self._waiting.pop(0)
            self._end_of_horizon_s = None
            self._measured_s.clear()
        return None

    def scenario_of(self, run: LimitRun) -> Scenario:
        """Return the scenario of the probe."""
        return make_probe_scenario(self._plan.scenario, run.horizon, run.rate, self._plan.duration_s)

    def judge(self, run: LimitRun, folder: RunFolder) -> LimitRun:
        """Say whether the rate was sustained."""
        self.runner.make_tables(folder)  # `stallbench report` makes the page of a single run
        probe = judge_probe(RunTables(folder.path), self._plan.slo, run.horizon)
        self._measured_s.append(time.monotonic() - self._began_s)
        verdict = "sustained" if probe.is_sustained else f"not sustained: {probe.reason}"
        self.say(f"  {run.rate:g} jobs/s: {verdict} ({self._plan.slo.describe(probe.value)})")
        return run.model_copy(update={"probe": probe, "reason": verdict})

    def title_of(self, run: LimitRun) -> str:
        """Return its rate."""
        return f"the probe of {run.rate:g} jobs/s"


def _separate_runs() -> SeparateRuns:
    return SeparateRuns(lambda: nullcontext(_QuietView()), is_latest=False)


class _QuietView(RunView):
    """Prints nothing during a probe; its result is printed afterwards."""

    def say(self, sentence: str) -> None:
        """Print nothing: it is in the records."""

    def show_progress(self, sentence: str) -> None:
        """Print nothing."""

    def show(self, at: object, read_figures: Callable[[], object]) -> None:
        """Print nothing."""
