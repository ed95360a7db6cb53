"""Compares the limits of a search with those of earlier searches (``--against``).

The figure is the highest rate that was sustained. The search tries the lowest rate that the tolerance allows, so that the answer does not depend on
the width of the interval: the limit is above it or below it.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from stallbench.run.host_facts import read_host_facts
from stallbench.run.record import read_record
from stallbench.scenario.model import CONTROL, Scenario
from stallbench.studies import regressions
from stallbench.studies.limit.probes import Horizon, make_probe_scenario
from stallbench.studies.limit.record import Limit, LimitPlan
from stallbench.studies.regressions import Measured
from stallbench.verdicts.baseline.baseline_file import BaselineVariant
from stallbench.verdicts.baseline.change import MetricComparison, ask
from stallbench.verdicts.baseline.comparability import (
    Conditions,
    find_conditions,
    require_same_conditions,
    require_same_cpus,
)
from stallbench.verdicts.baseline.compared_metric import ComparedMetric
from stallbench.verdicts.baseline.tolerance import SUSTAINED_RATE
from stallbench.verdicts.check import Finding

SUBJECT = ComparedMetric(metric=SUSTAINED_RATE, better="higher", role="ranked")


def name_search(variant: str | None, horizon: Horizon) -> str:
    """Return the name that the searches with a horizon have in a baseline."""
    return f"{variant or CONTROL}, horizon {horizon}"


def find_probe_conditions(probe: Scenario, slo: str) -> Conditions:
    """Return what must be equal in both: the load except for the rate, phases, queue and servers of a probe, and the bound."""
    conditions = find_conditions(probe)
    return {key: value for key, value in conditions.items() if key != "producers.rate"} | {"slo": slo}


def require_comparable_search(plan: LimitPlan) -> None:
    """Raise `BadInputError` if the result of the search cannot be compared with the baseline."""
    if plan.against is None:
        return
    require_same_conditions(
        plan.against.baseline,
        "limit",
        plan.scenario.name,
        {
            name_search(plan.scenario.variant, horizon): find_probe_conditions(
                make_probe_scenario(plan.scenario, horizon, 1.0, plan.duration_s), plan.slo.text
            )
            for horizon in plan.horizons
        },
    )
    require_same_cpus(plan.against.baseline, read_host_facts())


def find_baseline_rate(plan: LimitPlan, horizon: Horizon) -> float | None:
    """Return the mean of the rates that the searches of the baseline found; none without one."""
    known = _find_known(plan, horizon)
    metric = known.metrics.get(SUSTAINED_RATE) if known else None
    return statistics.fmean(metric.known) if metric and metric.known else None


def find_allowed_rate(plan: LimitPlan, horizon: Horizon) -> float | None:
    """Return the lowest rate that the tolerance allows, rounded up to three digits, as rates are; none without a baseline."""
    reference = find_baseline_rate(plan, horizon)
    if reference is None or plan.against is None:
        return None
    allowed = reference - plan.against.tolerance.for_metric(SUSTAINED_RATE).of(reference)
    if allowed <= 0:
        return None
    unit = 10.0 ** (math.floor(math.log10(allowed)) - 2)
    return float(f"{math.ceil(allowed / unit - 1e-9) * unit:.3g}")


def _find_known(plan: LimitPlan, horizon: Horizon) -> BaselineVariant | None:
    if plan.against is None:
        return None
    return plan.against.baseline.variants.get(name_search(plan.scenario.variant, horizon))


def find_regressions(plan: LimitPlan, limits: Sequence[Limit], folder: Path) -> tuple[Finding, ...]:
    """Return a finding for each limit, and further remarks; empty without a baseline. ``folder``: of the search."""
    measured = (_find_measured(plan, limit, folder) for limit in limits)
    return regressions.find_regressions(plan.against, "limit", plan.scenario.name, measured, seed=plan.scenario.seed)


def _find_measured(plan: LimitPlan, limit: Limit, folder: Path) -> Measured:
    paths = [folder / probe.run / "run.json" for probe in limit.probes[:1]]
    missing = ""
    if not paths:
        missing = "no rate was tried; give the search more time with --within"
    elif not paths[0].is_file():
        missing = "the folders of runs are gone; what they can be compared with is not known"
    return Measured(
        variant=name_search(plan.scenario.variant, limit.horizon),
        missing=missing,
        runs=[read_record(path) for path in paths if not missing],
        conditions=lambda scenario: find_probe_conditions(scenario, plan.slo.text),
        ask=lambda known, other_cpus: [_ask(plan, limit, known, other_cpus)],
    )


def _ask(plan: LimitPlan, limit: Limit, known: BaselineVariant, other_cpus: str) -> MetricComparison:
    name = name_search(plan.scenario.variant, limit.horizon)
    low, high = limit.interval.low or 0.0, limit.interval.high
    asked = ask(SUBJECT, [low], known, other_cpus=other_cpus, variant=name)
    allowed = find_allowed_rate(plan, limit.horizon)
    if not asked.obstacle and allowed is not None and low < allowed and (high is None or high > allowed):
        between = f"between {low:g} and {high:g}" if high is not None else f"above {low:g}"
        why = "its runs contradict each other" if limit.is_contradictory else "its time ended; give it more time with --within"
        return replace(
            asked,
            obstacle=f"the limit is {between} jobs/s, and {allowed:g} are expected; the search could not decide it, because {why}",
        )
    return asked
