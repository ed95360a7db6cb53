"""Searches for a limit without real runs: their plan, probes whose result is made up, and runs that show one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import pandas as pd

from stallbench.run.record import describe_bench
from stallbench.scenario.model import Scenario
from stallbench.studies.limit.limit import plan_limit
from stallbench.studies.limit.probes import PROBE, Horizon, Probe
from stallbench.studies.limit.record import LimitPlan, LimitRecord, LimitRun
from stallbench.studies.limit.resources import Use
from stallbench.studies.limit.slo import parse_slo
from stallbench.verdicts import Verdict
from stallbench.verdicts.attribution import Attribution
from tests.unit.made_up_run import PRIMARY, make_fault, make_phases, make_record, make_run


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


def make_searched(plan: LimitPlan, *probes: Probe) -> LimitRecord:
    """Return the record of a completed search with ``probes``."""
    runs = tuple(
        LimitRun(number=number, status="completed", horizon=probe.horizon, rate=probe.rate, probe=probe)
        for number, probe in enumerate(probes, start=1)
    )
    starts = dict.fromkeys(plan.horizons, 100.0)
    return LimitRecord(id="limit", bench=describe_bench(), status="completed", plan=plan, starts=starts, runs=runs)


def make_probe_run(is_sustained: Callable[[float, int], bool], version: str = "18.4") -> Callable[[Path, Scenario, int], Verdict]:
    """Return what writes the run of a probe, whose jobs pile up unless the rate is sustained: a function of it and of the number of the run."""

    def make(folder: Path, scenario: Scenario, number: int) -> Verdict:
        rate = scenario.producers.rate
        phase = make_record()["phases"][0] | {"name": PROBE}
        longrunner = make_fault(PROBE) | {"name": "idle_writer-1", "category": "longrunner", "kind": "idle_writer"}
        record = make_record(
            id=folder.name,
            scenario=scenario.model_dump(mode="json"),
            phases=[phase],
            servers=[PRIMARY | {"version": version}],
            injections=[longrunner] if scenario.phases[1].longrunners else [],
        )
        values = {(PROBE, "latency_ms.p95"): 20.0, (PROBE, "completed.rate"): rate, (PROBE, "enqueued.rate"): rate}
        depth = 1.0 if is_sustained(rate, number) else 100 * rate
        windows = pd.DataFrame({"t_s": range(20), "phase": PROBE, "depth": [depth] * 20})
        make_run(folder, record, phases=make_phases({**values, ("run", "lost.count"): 0.0}), windows=windows)
        return NO_VERDICT

    return make


NO_VERDICT = Verdict(
    run="probe",
    status="completed",
    verdict="unknown",
    reason="a probe is not judged by its checks",
    attribution=Attribution(sentence="", holders=(), trend=None),
    findings=(),
)
