"""Made-up runs of `longtx` with a ranked metric, a ratio and a rate, and baselines of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from stallbench.scenario.file import read_scenario
from stallbench.scenario.model import CONTROL, Scenario
from stallbench.studies.baseline_collection import collect_baseline
from stallbench.studies.comparison.plan import Plan, interleave
from stallbench.studies.comparison.record import ComparisonFolder, begin_comparison
from stallbench.verdicts import RunTables, judge
from stallbench.verdicts.baseline.baseline_file import Baseline
from stallbench.verdicts.baseline.compared_metric import choose_subjects
from tests.unit.made_up_run import make_phases, make_record, make_run

LATENCY = "latency_ms.p95 in longtx"
RATIO = "claim_ms.p95 in longtx / baseline"
RATE = "completed.rate in longtx"
EXPECT = (
    'expect=[{metric="claim_ms.p95", phase="longtx", relative_to="baseline", at_most=100}, '
    '{metric="completed.rate", phase="longtx", at_least=1}, {metric="empty.count", phase="longtx", at_least=0}]'
)
PRIMARY = {"name": "primary", "role": "primary", "engine": "postgres", "version": "16.4", "port": 1, "proxy_port": 2}


@cache
def _read_longtx(variant: str | None, *overrides: str) -> Scenario:
    return read_scenario("longtx", variant=variant, overrides=["producers.rate=100", EXPECT, *overrides])


def make_made_up_run(
    folder: Path,
    *,
    latency: float | None = 10.0,
    ratio: float = 2.0,
    rate: float = 100.0,
    overrides: Sequence[str] = (),
    variant: str | None = None,
    version: str = "16.4",
    **changes: Any,
) -> RunTables:
    """Write a run into ``folder``, whose name it has; ``changes`` replace keys of its record."""
    folder.mkdir(parents=True)
    scenario = _read_longtx(variant, *overrides)
    record = make_record(
        id=folder.name,
        scenario=scenario.model_dump(mode="json"),
        servers=[PRIMARY | {"version": version, "settings": {}, "start_ns": 1, "end_ns": 2}],
    )
    values = {
        ("baseline", "claim_ms.p95"): 1.0,
        ("longtx", "claim_ms.p95"): ratio,
        ("longtx", "completed.rate"): rate,
        ("longtx", "empty.count"): 3.0,
        ("run", "deadlocks.count"): 0.0,
        ("run", "order_diff.max"): 3.0,
        ("run", "order_diff.p99"): 0.0,
    }
    if latency is not None:
        values[("longtx", "latency_ms.p95")] = latency
    return make_run(folder, record | changes, phases=make_phases(values))


def make_baseline(runs: Path, latencies: Sequence[float | None], **changes: Any) -> Baseline:
    """Return the baseline of a run for each of ``latencies``."""
    names = [f"2029010{number}T000000Z-longtx" for number in range(1, len(latencies) + 1)]
    for name, latency in zip(names, latencies, strict=True):
        make_made_up_run(runs / name, latency=latency, **changes)
    return collect_baseline(names, runs)


def make_comparison(runs: Path, latencies: Mapping[str, Sequence[float | None]]) -> ComparisonFolder:
    """Write a comparison of variants of `longtx` and its runs; ``latencies``: by variant, the ranked metric in each round."""
    chosen = {name: _read_longtx(None if name == CONTROL else name) for name in latencies}
    rounds = len(next(iter(latencies.values())))
    plan = Plan(
        scenario=chosen[CONTROL],
        chosen=chosen,
        rounds=rounds,
        seed=1,
        subjects=choose_subjects(list(chosen.values())),
        runs=tuple(interleave(list(chosen), rounds, 1)),
    )
    folder, record = begin_comparison(plan, runs)
    judged: dict[str, str] = {}
    for run in record.runs:
        name = f"{folder.path.name}-{run.number:02}"
        variant = None if run.variant == CONTROL else run.variant
        tables = make_made_up_run(runs / name, latency=latencies[run.variant][run.round - 1], variant=variant)
        if run.variant in judged:  # no expectation is about what is different
            first = judged[run.variant]
            verdict = (runs / first / "verdict.json").read_text()
            (runs / name / "verdict.json").write_text(verdict.replace(f'"run": "{first}"', f'"run": "{name}"'))
        else:
            judge(tables)
            judged[run.variant] = name
        record = record.with_run(run.model_copy(update={"status": "completed", "folder": name}))
    folder.write(record.model_copy(update={"status": "completed"}))
    return folder
