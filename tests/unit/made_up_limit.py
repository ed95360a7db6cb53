"""Searches for a limit without runs: their plan, and probes whose result is made up."""

from __future__ import annotations

from collections.abc import Sequence

from stallbench.studies.limit.limit import plan_limit
from stallbench.studies.limit.probes import Horizon, Probe
from stallbench.studies.limit.record import LimitPlan
from stallbench.studies.limit.resources import Use
from stallbench.studies.limit.slo import parse_slo


def plan(
    scenario: str,
    *,
    horizon: Horizon | None = None,
    within_s: float = 600,
    overrides: Sequence[str] = (),
    variant: str | None = None,
    slo: str = "latency_ms.p95 < 1s",
) -> LimitPlan:
    return plan_limit(
        scenario,
        slo=parse_slo(slo),
        variant=variant,
        overrides=overrides,
        horizon=horizon,
        duration_s=15,
        within_s=within_s,
        precision=0.1,
        start_rate=100,
    )


def use(resource: str, share: float) -> Use:
    return Use(resource=resource, share=share, threshold=0.9, description=f"{share:.0%} of it")


def make_probe(horizon: Horizon, rate: float, *, reason: str = "") -> Probe:
    return Probe(
        horizon=horizon,
        rate=rate,
        is_sustained=not reason,
        reason=reason,
        value=20.0,
        completed_rate=rate,
        dead_tuples=1200.0,
        uses=(use("CPU", 0.97 if reason else 0.3),),
        run="run",
    )
