"""Finds a comparison's results in the folders of its runs, and makes its pages. This can be repeated at any time."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from stallbench.measures import EXECUTIONS_PER_JOB, LOST, RE_EXECUTED, REFUSED
from stallbench.pipeline.failures import NoTableError
from stallbench.studies.comparison.record import ComparedRun, ComparisonFolder, ComparisonRecord
from stallbench.studies.comparison.regressions import find_regressions
from stallbench.studies.comparison.report import make_pages
from stallbench.studies.comparison.results import Results, find_results
from stallbench.studies.junit import make_run_suite, write_junit
from stallbench.studies.saturation import find_time_to_saturation_s
from stallbench.verdicts.baseline.compared_metric import TIME_TO_SATURATION, ComparedMetric
from stallbench.verdicts.check import RunTables
from stallbench.verdicts.duplicates import count_repeated
from stallbench.verdicts.verdict_file import RecordedVerdict, read_verdict

_SAFETY_CHECKS = ("conservation", "duplicates", "requirements")
_SAFETY = ("jobs_lost", "jobs_repeated", "jobs_unexpected")
"""Findings of these checks, and as severe as this, mean that a queue lost jobs, or executed them again without a reason. If one is unknown, it may have done
so."""


def conclude_comparison(folder: ComparisonFolder, record: ComparisonRecord) -> tuple[ComparisonRecord, Results]:
    """Read every run's values and verdict again, and find the results; returns the record with them.

    If a run's folder is gone, its entry in the record stays as it is.
    """
    for run in record.runs:
        if run.status == "completed" and run.folder is not None:
            record = record.with_run(_read_folder(folder.runs / run.folder, run, record))
    record = record.model_copy(update={"regressions": find_regressions(folder, record)})
    results = find_results(record)
    return record.model_copy(update={"results": results.as_json()}), results


def write_files(folder: ComparisonFolder, record: ComparisonRecord, results: Results) -> None:
    """Write the pages and the JUnit file."""
    make_pages(folder, record, results)
    suites = [
        make_run_suite(f"{record.scenario.name}.{run.variant}.round-{run.round}", folder.runs, run, run.folder or record.id)
        for run in record.runs
    ]
    write_junit(folder.path, record.scenario.name, record, suites)


def _read_folder(path: Path, run: ComparedRun, record: ComparisonRecord) -> ComparedRun:
    try:
        return read_run(RunTables(path), read_verdict(path), run, record)
    except (NoTableError, FileNotFoundError):
        return run


def read_run(tables: RunTables, verdict: RecordedVerdict, run: ComparedRun, record: ComparisonRecord) -> ComparedRun:
    """Return ``run`` of the comparison with its values in every subject, and its verdict. Raises what the reading of a table raises."""
    values = {subject.key: _read_value(tables, subject) for subject in record.subjects}
    safety = [finding for finding in verdict.findings if finding.check in _SAFETY_CHECKS and finding.severity in _SAFETY]
    of_safety = {result: [finding.reason for finding in safety if finding.result == result] for result in ("fail", "unknown")}
    found = {
        "verdict": verdict.verdict,
        "reason": verdict.reason,
        "unsafe": next(iter(of_safety["fail"]), ""),
        "undecided": next(iter(of_safety["unknown"]), ""),
    }
    return run.model_copy(update={"values": values, **found})


def _read_value(run: RunTables, subject: ComparedMetric) -> float | None:
    """Return the value; none if the tables do not have it."""
    if subject.metric == TIME_TO_SATURATION and subject.phase is not None:
        return _read_time_to_saturation_s(run, subject.phase)
    if subject.metric in _OF_THE_RUN:
        return _OF_THE_RUN[subject.metric](run)
    return run.metric_or_ratio(subject.metric, subject.phase, subject.relative_to)


def _read_time_to_saturation_s(run: RunTables, phase: str) -> float | None:
    """Return the time to saturation, or the phase's length if the queue is not saturated at its end."""
    windows = run["windows"]
    of_phase = windows[windows["phase"] == phase]
    saturated_s = find_time_to_saturation_s(of_phase, run.record.scenario.producers.rate)
    sampled = of_phase.dropna(subset=["depth"])["t_s"]
    return None if saturated_s is None else min(saturated_s, float(sampled.max() + 1 - sampled.min()))


def _count_re_executed(run: RunTables) -> float:
    return float(count_repeated(run).re_executed)


def _count_lost(run: RunTables) -> float | None:
    """Return none if the state of some jobs is unknown: they may be lost, too."""
    return None if run.state_count("unknown") else float(run.state_count("lost"))


def _executions_per_job(run: RunTables) -> float | None:
    """The order has all executions; ``duplicates`` has the executions of each job that has more than one."""
    executions = run.count_behind("order_diff", "max", None)
    further = count_repeated(run).re_executions
    return executions / (executions - further) if executions > further else None


_OF_THE_RUN: Mapping[str, Callable[[RunTables], float | None]] = {
    RE_EXECUTED: _count_re_executed,
    LOST: _count_lost,
    REFUSED: lambda run: float(run.state_count("refused")),
    EXECUTIONS_PER_JOB: _executions_per_job,
}
