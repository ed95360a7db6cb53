"""One probe: a run at one rate, and whether the queue sustained it.

A probe has a warm-up and one measured phase of a fixed length: either as in the scenario's baseline, or with the longrunners of the scenario's first
phase that has any, which hold the horizon from the beginning of the phase to its end.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import inf
from typing import Literal, cast, get_args

import pandas as pd

from stallbench.errors import BadInputError, NotCarriedOutError
from stallbench.scenario.model import Scenario
from stallbench.scenario.sections import Phase
from stallbench.studies.limit.resources import Use, find_uses
from stallbench.studies.limit.slo import Slo
from stallbench.studies.saturation import find_time_to_saturation_s
from stallbench.verdicts import RunTables
from stallbench.verdicts.injections import InjectionsActive

Horizon = Literal["free", "held"]
PROBE = "probe"
"""Name of the measured phase."""
_WARM_UP_S = 3.0
_UNSAMPLED_S = 3.0
"""At the end of the phase. Without a sample of the depth in that time, or in three intervals of the collectors, it is not known whether jobs wait."""
_ENQUEUED_SHARE = 0.95
"""Share of the intended jobs. If fewer were enqueued, the producers did not apply the load."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Probe:
    """The result of one run."""

    horizon: Horizon
    rate: float
    is_sustained: bool
    reason: str
    """Why the rate was not sustained; empty if it was."""
    value: float | None
    """Of the metric that is bounded; none if no job was completed."""
    completed_rate: float
    dead_tuples: float | None
    """Maximum in the phase."""
    uses: tuple[Use, ...]
    run: str
    """Name of the run's folder."""


def read_horizon(text: str | None) -> Horizon | None:
    """Return the horizon that the command line names, if any; raises `BadInputError` for anything else."""
    if text is None:
        return None
    found = next((horizon for horizon in get_args(Horizon) if horizon == text), None)
    if found is None:
        raise BadInputError(f"--horizon {text}: expected {' or '.join(get_args(Horizon))}")
    return cast("Horizon", found)


def find_held_phase(scenario: Scenario) -> Phase | None:
    """Return the first measured phase with longrunners, in which the scenario holds the horizon; none if it has none."""
    return next((phase for phase in scenario.phases if phase.measured and phase.longrunners), None)


def make_probe_scenario(scenario: Scenario, horizon: Horizon, rate: float, duration_s: float) -> Scenario:
    """Return the scenario of one probe."""
    held = find_held_phase(scenario)
    longrunners = held.longrunners if horizon == "held" and held else ()
    phases = (
        Phase.model_validate({"name": "warmup", "duration": f"{_WARM_UP_S:g}s", "measured": False}),
        Phase.model_validate({"name": PROBE, "duration": f"{duration_s:.12g}s"}).model_copy(update={"longrunners": longrunners}),
    )
    producers = scenario.producers.model_copy(update={"rate": rate, "capacity_share": None, "backlog": 0})
    return scenario.model_copy(
        update={
            "producers": producers,
            "phases": phases,
            "expect": (),
            "require": (),
            "comparison": None,
            "external_processes": False,
        }
    )


def judge_probe(tables: RunTables, slo: Slo, horizon: Horizon) -> Probe:
    """Return whether the run sustained its rate: it met the bound, lost no job, was not saturated at the end, and all its load was applied.

    If one of these is unknown, the rate counts as not sustained. Raises `NotCarriedOutError` if the bounded metric was not measured although jobs
    were completed, or if the horizon was not held to the end of the phase.
    """
    if horizon == "held":
        _require_held(tables)
    scenario = tables.record.scenario
    rate = scenario.producers.rate
    measure, _, statistic = slo.metric.partition(".")
    value = tables.metric(measure, statistic, PROBE)
    completed_rate = tables.metric("completed", "rate", PROBE) or 0.0
    enqueued_rate = tables.metric("enqueued", "rate", PROBE) or 0.0
    if value is None and completed_rate:
        raise NotCarriedOutError(f"{slo.metric} was not measured in {tables.folder}: choose another metric for --slo")
    windows = tables["windows"]
    windows = windows[windows["phase"] == PROBE]
    saturated_s = find_time_to_saturation_s(windows, rate)
    reasons = []
    if value is None:
        reasons.append("no job was completed")
    elif not slo.holds(value):
        reasons.append(f"{slo.describe(value)}")
    if saturated_s is None:
        reasons.append("the depth of the queue was not sampled")
    elif saturated_s < inf:
        reasons.append(f"saturated after {saturated_s:.0f} s")
    elif (unsampled_s := _count_unsampled_s(windows)) > max(_UNSAMPLED_S, 3 * scenario.collectors.interval_s):
        reasons.append(f"the depth of the queue was not sampled in the last {unsampled_s:.0f} s")
    if enqueued_rate < _ENQUEUED_SHARE * rate:
        reasons.append(f"only {enqueued_rate:,.0f} jobs/s were enqueued")
    lost = tables.metric("lost", "count", None)
    if lost is None:
        reasons.append("it is unknown whether jobs were lost")
    elif lost:
        reasons.append(f"{lost:,.0f} jobs were lost")
    return Probe(
        horizon=horizon,
        rate=rate,
        is_sustained=not reasons,
        reason=", ".join(reasons),
        value=value,
        completed_rate=completed_rate,
        dead_tuples=tables.metric("dead_tuples", "max", PROBE),
        uses=tuple(find_uses(tables, PROBE)),
        run=str(tables.folder.name),
    )


def _count_unsampled_s(windows: pd.DataFrame) -> float:
    """Return the seconds from the last sample of the depth to the last of ``windows``; the depth was sampled."""
    return float(windows["t_s"].max() - windows.loc[windows["depth"].notna(), "t_s"].max())


def _require_held(tables: RunTables) -> None:
    names = {injection.name for injection in tables.record.injections if injection.category == "longrunner"}
    for finding in InjectionsActive().judge(tables):
        if finding.subject in names and finding.result != "pass":
            raise NotCarriedOutError(f"the horizon was not held: {finding.reason}\nits records: {tables.folder}")
