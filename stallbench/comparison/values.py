"""What one run's tables say of each subject. A value that they do not have is none, never zero."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from stallbench.comparison.subject import EXECUTED_AGAIN, EXECUTIONS_PER_JOB, HELD_OUT, LOST, REFUSED, Subject
from stallbench.comparison.time_to_saturation import find_time_to_saturation_s
from stallbench.verdicts.check import RunTables


def read_values(run: RunTables, subjects: Sequence[Subject]) -> dict[str, float | None]:
    """Return the value of each of ``subjects`` by its key. Raises `NoTableError` if the run's tables were not made."""
    return {subject.key: _read(run, subject) for subject in subjects}


def _read(run: RunTables, subject: Subject) -> float | None:
    if subject.metric == HELD_OUT and subject.phase is not None:
        return find_time_to_saturation_s(run, subject.phase)
    if subject.metric in _OF_THE_RUN:
        return _OF_THE_RUN[subject.metric](run)
    measure, _, statistic = subject.metric.partition(".")
    value = run.metric(measure, statistic, subject.phase)
    if subject.relative_to is None or value is None:
        return value
    base = run.metric(measure, statistic, subject.relative_to)
    return value / base if base else None


def _count_re_executed(run: RunTables) -> float:
    return float((run["duplicates"]["executions"] > 1).sum())


def _executions_per_job(run: RunTables) -> float | None:
    """From small tables alone: ``order`` counts all executions, and those in ``duplicates`` so many more than their jobs."""
    executions = int(run["order"]["claims"].sum())
    further = int((run["duplicates"]["executions"] - 1).clip(lower=0).sum())
    return executions / (executions - further) if executions > further else None


_OF_THE_RUN: Mapping[str, Callable[[RunTables], float | None]] = {
    EXECUTED_AGAIN: _count_re_executed,
    LOST: lambda run: float(run.state_count("lost")),
    REFUSED: lambda run: float(run.state_count("refused")),
    EXECUTIONS_PER_JOB: _executions_per_job,
}
