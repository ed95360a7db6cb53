"""Is a variant of a comparison worse than in the baseline that the comparison is compared with (``--against``)?

The runs of a comparison are judged together, not one by one: all rounds of a variant against all runs of it in the baseline.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path

from stallbench.run.record import RunRecord, read_record
from stallbench.studies import regressions
from stallbench.studies.comparison.record import ComparedRun, ComparisonFolder, ComparisonRecord
from stallbench.studies.regressions import Measured, make_finding
from stallbench.verdicts.baseline.against import read_against
from stallbench.verdicts.baseline.baseline_file import BaselineVariant
from stallbench.verdicts.baseline.change import MetricComparison, ask, choose_compared
from stallbench.verdicts.baseline.comparability import find_conditions
from stallbench.verdicts.check import Finding


def find_regressions(folder: ComparisonFolder, record: ComparisonRecord) -> tuple[Finding, ...]:
    """Return a finding for each variant and metric; empty if the comparison is not compared with a baseline."""
    measured = (_find_measured(folder.runs, record, variant) for variant in record.names)
    return regressions.find_regressions(read_against(folder.path), "run", record.scenario.name, measured, seed=record.seed)


def _find_measured(runs: Path, record: ComparisonRecord, variant: str) -> Measured:
    of_variant = [run for run in record.runs if run.variant == variant]
    completed = [run for run in of_variant if run.status == "completed"]
    run_records = [found for run in completed if (found := _read(runs, run.folder)) is not None]
    missing = "no run was completed" if not completed else "the folders of runs are gone"
    is_missing = not completed or len(run_records) < len(completed)
    return Measured(
        variant=variant,
        missing=f"{missing}; what they can be compared with is not known" if is_missing else "",
        runs=run_records,
        conditions=find_conditions,
        ask=partial(_ask, record, of_variant, run_records),
    )


def _ask(
    record: ComparisonRecord,
    of_variant: list[ComparedRun],
    run_records: list[RunRecord],
    known: BaselineVariant,
    other_cpus: str,
) -> Iterator[MetricComparison | Finding]:
    """Yield a question for each metric. A run that has no value of it may have been the worst, so the others do not decide; nor do they without one
    that was not completed.
    """
    variant = of_variant[0].variant
    completed = [run for run in of_variant if run.status == "completed"]
    for subject in choose_compared(record.subjects, run_records[0].scenario):
        values = [value for run in completed if (value := run.values.get(subject.key)) is not None]
        asked = ask(subject, values, known, other_cpus=other_cpus, variant=variant)
        if asked.obstacle or len(values) == len(completed):
            yield asked
        else:
            yield replace(asked, obstacle=f"it was not measured in {len(completed) - len(values)} of {len(completed)} runs")
    if lacking := len(of_variant) - len(completed):
        were = "were" if lacking > 1 else "was"
        reason = f"{lacking} of its {len(of_variant)} runs {were} not completed, and may have been worse"
        yield make_finding(variant, "unknown", reason)


def _read(runs: Path, folder: str | None) -> RunRecord | None:
    path = runs / (folder or "") / "run.json"
    return read_record(path) if folder and path.is_file() else None
