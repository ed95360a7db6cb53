"""Carries out the search for a limit: plans it, runs one probe after the other within a time bound, and records what was found."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from stallbench.discovery import LIBRARY_PREFIX
from stallbench.errors import BadInputError, NotCarriedOutError, StallbenchError
from stallbench.pipeline.process import KeptPipeline
from stallbench.regression.against import Against, write_against
from stallbench.run.capacity import measure_capacity
from stallbench.run.folder import create_folder
from stallbench.run.opening import open_run
from stallbench.run.view import RunView
from stallbench.scenario.file import read_scenario
from stallbench.studies.limit.probes import Horizon, Probe, find_held_phase, judge_probe, make_probe_scenario
from stallbench.studies.limit.record import Limit, LimitOutcome, LimitPlan, write_end, write_outcome
from stallbench.studies.limit.regression import (
    find_allowed_rate,
    find_baseline_rate,
    find_regressions,
    require_comparable_search,
    write_regressions,
)
from stallbench.studies.limit.resources import find_first_exhausted
from stallbench.studies.limit.search import find_interval, find_next_rate, is_contradictory
from stallbench.studies.limit.slo import Slo
from stallbench.verdicts import RunTables

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
    against: Against | None = None,
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


def find_limits(plan: LimitPlan, runs: Path, say: Callable[[str], None]) -> tuple[Path, LimitOutcome]:
    """Carry out the plan in a new folder below ``runs``, and write the outcome to `LIMIT`; returns the folder and the outcome. A probe that cannot be
    carried out ends the search; the outcome has the reason, and the results until then. Raises `NotCarriedOutError` if the folder cannot be created.
    """
    end_s = time.monotonic() + plan.within_s
    folder = create_folder(runs, "limit", plan.scenario.name, plan.scenario.variant)
    outcome = LimitOutcome(capacity=None, limits=(), status="running")
    write_outcome(folder, plan, outcome)
    try:
        if plan.against:
            write_against(folder, plan.against)
        starts = {horizon: plan.start_rate or find_baseline_rate(plan, horizon) for horizon in plan.horizons}
        if None in starts.values():
            capacity = measure_capacity(plan.scenario, say, folder)
            outcome = replace(outcome, capacity=capacity)
            write_outcome(folder, plan, outcome)
            starts = {horizon: start or _START_SHARE * capacity for horizon, start in starts.items()}
        with KeptPipeline() as pipeline:
            for number, horizon in enumerate(plan.horizons):
                share_s = (end_s - time.monotonic()) / (len(plan.horizons) - number)
                start = starts[horizon]
                assert start is not None
                search = _Search(plan, horizon, start, time.monotonic() + share_s, folder, pipeline, say)
                before = outcome.limits
                for found in search.carry_out():
                    outcome = replace(outcome, limits=(*before, found))
                    write_outcome(folder, plan, outcome)
        outcome = replace(outcome, status="completed", regressions=find_regressions(plan, outcome.limits, folder))
        write_regressions(folder, plan, outcome)
    except KeyboardInterrupt:
        outcome = replace(outcome, status="aborted")
    except (NotCarriedOutError, OSError) as error:
        outcome = replace(outcome, status="failed", reason=str(error))
    except BaseException as error:
        write_end(folder, plan, replace(outcome, status="failed", reason=str(error)))
        raise
    return folder, write_end(folder, plan, outcome)


class _Search:
    """The probes with the horizon free, or held."""

    def __init__(
        self,
        plan: LimitPlan,
        horizon: Horizon,
        start: float,
        end_s: float,
        folder: Path,
        pipeline: KeptPipeline,
        say: Callable[[str], None],
    ) -> None:
        self._plan = plan
        self._horizon = horizon
        self._start = start
        self._end_s = end_s
        self._folder = folder
        self._pipeline = pipeline
        self._say = say
        self._allowed_rate = find_allowed_rate(plan, horizon)
        self._longest_s = plan.duration_s + _OVERHEAD_S
        self._probes: list[Probe] = []
        self._is_complete = False

    def carry_out(self) -> Iterator[Limit]:
        """Probe until no rate is left to try, or until the time left is shorter than a probe; yields what is known after each probe, and at the
        end.
        """
        self._say(f"horizon {self._horizon}:")
        measured_s: list[float] = []
        while True:
            rate = find_next_rate(
                self._results,
                start=self._start,
                precision=self._plan.precision,
                confirms=self._plan.confirms,
                decisive=self._allowed_rate,
            )
            if rate is None:
                self._is_complete = True
                break
            if time.monotonic() + max(measured_s, default=self._longest_s) > self._end_s:
                break
            began_s = time.monotonic()
            probe = self._carry_out_one(rate)
            measured_s.append(time.monotonic() - began_s)
            self._probes.append(probe)
            verdict = "sustained" if probe.is_sustained else f"not sustained: {probe.reason}"
            self._say(f"  {rate:g} jobs/s: {verdict} ({self._plan.slo.describe(probe.value)})")
            yield self._result()
        yield self._result()

    def _result(self) -> Limit:
        """Return what the probes so far show."""
        return Limit(
            horizon=self._horizon,
            interval=find_interval(self._results),
            first_exhausted=find_first_exhausted([(probe.rate, probe.uses) for probe in self._probes if not probe.is_sustained]),
            is_contradictory=is_contradictory(self._results),
            is_complete=self._is_complete,
            probes=tuple(self._probes),
        )

    @property
    def _results(self) -> list[tuple[float, bool]]:
        return [(probe.rate, probe.is_sustained) for probe in self._probes]

    def _carry_out_one(self, rate: float) -> Probe:
        scenario = make_probe_scenario(self._plan.scenario, self._horizon, rate, self._plan.duration_s)
        try:
            with open_run(scenario, self._folder, _QuietView(), is_latest=False) as run:
                folder = run.folder
                run.carry_out()
            self._pipeline.make_tables(folder)  # `stallbench report` makes the page of a single run
        except (StallbenchError, OSError, subprocess.SubprocessError) as error:
            raise NotCarriedOutError(f"the probe of {rate:g} jobs/s could not be carried out: {error}") from error
        return judge_probe(RunTables(folder.path), self._plan.slo, self._horizon)


class _QuietView(RunView):
    """Prints nothing during a probe; its result is printed afterwards."""

    def say(self, sentence: str) -> None:
        """Print nothing: it is in the records."""

    def show(self, phase: str, left_s: float, read_figures: Callable[[], object]) -> None:
        """Print nothing."""
