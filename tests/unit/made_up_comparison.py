"""Comparisons without real runs, for tests of results and pages: each test states only what its runs measured."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from stallbench.scenario.model import CONTROL, Scenario
from stallbench.studies.comparison.conclusion import conclude_comparison as find_results_of
from stallbench.studies.comparison.conclusion import write_files
from stallbench.studies.comparison.plan import Plan, interleave
from stallbench.studies.comparison.record import ComparisonFolder, ComparisonRecord, begin_comparison
from stallbench.studies.comparison.results import Results
from stallbench.studies.kind import Conclusion
from stallbench.verdicts import judge
from stallbench.verdicts.baseline.compared_metric import choose_subjects
from tests.unit.made_up_run import EMPTY, make_phases, make_record, make_run, make_windows

SCENARIO = {
    "name": "made-up",
    "file": "scenarios/made-up.toml",
    "summary": "A scenario that was made up.",
    "queue": {"kind": "que"},
    "producers": {"rate": 100},
    "phases": [
        {"name": "baseline", "duration": "20s"},
        {"name": "longtx", "duration": "40s"},
        {"name": "recovered", "duration": "20s"},
    ],
    "expect": [
        {"metric": "claim_ms.p95", "phase": "longtx", "relative_to": "baseline", "at_least": 5},
        {"metric": "depth.last", "phase": "recovered", "at_most": 100},
    ],
}

Measured = Mapping[str, Sequence[float | None]]
"""By variant, a value for each round; none for a run that could not be carried out."""


def conclude_comparison(folder: ComparisonFolder) -> tuple[ComparisonRecord, Results]:
    """Find the results of a comparison and write its files; returns the record with the results."""
    record, results = find_results_of(folder, folder.read())
    Conclusion(folder, record, lambda: write_files(folder, record, results), lambda _: None).write()
    return record, results


def make_scenario(**changes: Any) -> Scenario:
    """Return a small scenario; ``changes`` replace its keys."""
    return Scenario.model_validate({**SCENARIO, **changes})


def make_made_up_plan(variants: Sequence[str], rounds: int, seed: int = 1, **changes: Any) -> Plan:
    """Return a plan that needs no file; of ``variants``, the first is the reference."""
    chosen = {name: make_scenario(variant=None if name == CONTROL or ":" in name else name, **changes) for name in variants}
    scenario = make_scenario(**changes)
    return Plan(
        scenario=scenario,
        chosen=chosen,
        rounds=rounds,
        seed=seed,
        subjects=choose_subjects([scenario, *chosen.values()]),
        runs=tuple(interleave(variants, rounds, seed)),
    )


def make_made_up_record(measured: Measured, runs: Path, **changes: Any) -> tuple[ComparisonFolder, ComparisonRecord]:
    """Return a comparison whose runs have ``measured`` as what is ranked (and 1 in the baseline), without folders of their own."""
    rounds = max(len(values) for values in measured.values())
    folder, record = begin_comparison(make_made_up_plan(list(measured), rounds, **changes), runs)
    for run in record.runs:
        value = measured[run.variant][run.round - 1]
        values = {subject.key: 1.0 for subject in record.subjects if subject.role == "baseline"} | {record.ranked.key: value}
        ended: dict[str, Any] = {"status": "failed", "reason": "no server"}
        if value is not None:
            ended = {"status": "completed", "verdict": "pass", "values": values}
        record = record.with_run(run.model_copy(update=ended))
    record = record.model_copy(update={"status": "completed"})
    folder.write(record)
    return folder, record


def make_made_up_comparison(runs: Path, slowness: Mapping[str, float], rounds: int = 3, **changes: Any) -> ComparisonFolder:
    """Return a comparison with a folder of each run; ``slowness``: by variant, how many times longer claims take in ``longtx``.

    A variant called ``twice`` re-executes job 7 without a reason.
    """
    folder, record = begin_comparison(make_made_up_plan(list(slowness), rounds, **changes), runs)
    for run in record.runs:
        slower = slowness[run.variant] * (1 + 0.02 * run.round)
        again = [[7, 2, 2, "worker-1, worker-2", False, "why", "", None]] if run.variant == "twice" else []
        name = f"20300101T00000{run.number}Z-made-up-{run.variant}"
        (runs / name).mkdir()
        tables = make_run(
            runs / name,
            make_record(id=name),
            windows=make_windows(
                lambda t, slower=slower: (t - 20) * 30.0 * slower if 20 <= t < 60 else 0.0,
                lambda t, slower=slower: slower if 20 <= t < 60 else 1.0,
            ),
            phases=make_phases(
                {
                    ("baseline", "claim_ms.p95"): 2.0,
                    ("longtx", "claim_ms.p95"): 2.0 * slower,
                    ("recovered", "depth.last"): 3.0,
                    ("baseline", "completed.rate"): 100.0,
                    ("baseline", "claim_ms.p50"): 1.0 + 0.01 * run.round + (0.5 if run.variant == "costly" else 0),
                    ("run", "order_diff.max"): 3.0,
                    ("run", "order_diff.p99"): 0.0,
                },
                counts={("run", "order_diff.max"): 100},
            ),
            duplicates=pd.DataFrame(again, columns=EMPTY["duplicates"]),
        )
        judge(tables)
        record = record.with_run(run.model_copy(update={"status": "completed", "folder": name}))
    folder.write(record.model_copy(update={"status": "completed"}))
    return folder
