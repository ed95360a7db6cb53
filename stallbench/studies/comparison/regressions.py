"""Is a variant of a comparison worse than in the baseline that the comparison is compared with (``--against``)?

The runs of a comparison are judged together, not one by one: all rounds of a variant against all runs of it in the baseline.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from stallbench.run.record import RunRecord, read_record
from stallbench.studies.comparison.record import ComparedRun, ComparisonFolder, ComparisonRecord
from stallbench.studies.regressions import as_finding, make_finding
from stallbench.verdicts.baseline.against import read_against
from stallbench.verdicts.baseline.baseline_file import Baseline, BaselineVariant
from stallbench.verdicts.baseline.change import MetricComparison, ask, choose_compared, find_changes
from stallbench.verdicts.baseline.comparability import (
    describe_minor_differences,
    describe_other_cpus,
    find_machine,
    find_obstacle,
)
from stallbench.verdicts.baseline.compared_metric import ComparedMetric
from stallbench.verdicts.check import Finding


def find_regressions(folder: ComparisonFolder, record: ComparisonRecord) -> tuple[Finding, ...]:
    """Return a finding for each variant and metric; empty if the comparison is not compared with a baseline."""
    against = read_against(folder.path)
    if against is None:
        return ()
    findings: list[Finding] = []
    questions: list[MetricComparison] = []
    for variant in record.names:
        of_variant = _ask_about(folder.runs, record, against.baseline, variant)
        if isinstance(of_variant, Finding):
            findings.append(of_variant)
            continue
        questions += of_variant[0]
        findings += of_variant[1]
    changes = find_changes(questions, against.tolerance, seed=record.seed)
    return (*map(as_finding, changes), *findings)


def _ask_about(
    runs: Path, record: ComparisonRecord, baseline: Baseline, variant: str
) -> tuple[list[MetricComparison], list[Finding]] | Finding:
    """Return a question for each metric, and what else is to be said; or a finding, if no metric can be compared."""
    if variant not in baseline.variants and record.scenario.name == baseline.scenario:
        return make_finding(variant, "info", "the baseline has no runs of it")
    of_variant = [run for run in record.runs if run.variant == variant]
    completed = [run for run in of_variant if run.status == "completed"]
    run_records = [found for run in completed if (found := _read(runs, run.folder)) is not None]
    if not completed or len(run_records) < len(completed):
        missing = "no run was completed" if not completed else "the folders of runs are gone"
        return make_finding(variant, "unknown", f"{missing}; what they can be compared with is not known")
    for each in run_records:
        if obstacle := find_obstacle(baseline, variant, each):
            return make_finding(variant, "unknown", f"cannot be compared with the baseline: {obstacle}")
    other_cpus = describe_other_cpus(find_machine(run_records[0]), baseline.machine)
    known = baseline.variants[variant]
    questions = [
        _ask(subject, completed, known, other_cpus=other_cpus, variant=variant)
        for subject in choose_compared(record.subjects, run_records[0].scenario)
    ]
    findings = []
    if differences := describe_minor_differences(baseline, variant, run_records[0]):
        findings.append(make_finding(variant, "info", f"compared with the baseline although {differences}"))
    if lacking := len(of_variant) - len(completed):
        were = "were" if lacking > 1 else "was"
        reason = f"{lacking} of its {len(of_variant)} runs {were} not completed, and may have been worse"
        findings.append(make_finding(variant, "unknown", reason))
    return questions, findings


def _ask(
    subject: ComparedMetric, completed: Sequence[ComparedRun], known: BaselineVariant, *, other_cpus: str, variant: str
) -> MetricComparison:
    """Return the question about one metric. A run that has no value of it may have been the worst, so the others do not decide."""
    values = [value for run in completed if (value := run.values.get(subject.key)) is not None]
    asked = ask(subject, values, known, other_cpus=other_cpus, variant=variant)
    if asked.obstacle or len(values) == len(completed):
        return asked
    return replace(asked, obstacle=f"it was not measured in {len(completed) - len(values)} of {len(completed)} runs")


def _read(runs: Path, folder: str | None) -> RunRecord | None:
    path = runs / (folder or "") / "run.json"
    return read_record(path) if folder and path.is_file() else None
