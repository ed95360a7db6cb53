"""Samples of the jobs that `stallbench observe` counted, and which metrics of them are uncertain because a count did not see every job.

A count stops at `MOST_COUNTED` jobs, ends after a time limit, and may be refused. What it returns is then at least so many, or nothing, and that tends to
happen when the queue is at its worst. The samples have the figures; this remembers the readings whose figures were not whole.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

from stallbench.base.number_text import format_count, format_plural
from stallbench.engines.collectors.collector import samples_of
from stallbench.measures import MEASURES
from stallbench.observe.address import PRIMARY
from stallbench.observe.postgres.job_counts import MOST_COUNTED, JobCounts
from stallbench.records.samples import Sample
from stallbench.run.record import UncertainMetric

_MEASURES = ("depth", "oldest_job_s")
_OF_ONE_READING = {"first": (0, "at the first reading"), "last": (-1, "at the last reading")}
_NOTHING = "no queue was counted"
_NOT_READ = "the server could not be read"


class _Figure(NamedTuple):
    """A measure at one reading."""

    value: float | None
    """None if nothing is known; at least so much if ``why_not`` is given."""
    why_not: str
    """Why it is not whole; empty if it is."""


class JobSamples:
    """The samples of one observation."""

    def __init__(self) -> None:
        """Know no reading."""
        self._readings: dict[str, list[_Figure]] = {name: [] for name in _MEASURES}

    def take(self, counts: Mapping[str, JobCounts]) -> list[Sample]:
        """Return the samples of one reading. ``counts``: of each queue, by its title."""
        found = {"depth": _combine(counts, _depth, sum), "oldest_job_s": _combine(counts, _oldest, max)}
        for name, figure in found.items():
            self._readings[name].append(figure)
        values = {name: figure.value for name, figure in found.items() if figure.value is not None}
        return list(samples_of(PRIMARY, "queue", values))

    def miss(self) -> None:
        """Note a reading at which the server could not be read."""
        for readings in self._readings.values():
            readings.append(_Figure(None, _NOT_READ))

    def find_uncertain(self) -> list[UncertainMetric]:
        """Return the metrics whose value a reading that did not see every job may have flattered."""
        return [
            uncertain
            for name in _MEASURES
            for statistic in MEASURES[name].statistics
            if (uncertain := _describe(f"{name}.{statistic}", statistic, self._readings[name])) is not None
        ]


def _depth(title: str, counts: JobCounts) -> _Figure:
    if counts.ready is None:
        return _Figure(None, f"{title} was not counted ({counts.why_not})")
    return _Figure(counts.ready, _describe_limit(title, counts.ready))


def _oldest(title: str, counts: JobCounts) -> _Figure:
    if counts.ready is None:
        return _depth(title, counts)
    if counts.ready == 0:
        return _Figure(0.0, "")
    if counts.oldest_s is None:
        return _Figure(None, f"the age of the jobs of {title} is not known")
    return _Figure(max(counts.oldest_s, 0.0), _describe_limit(title, counts.ready))


def _describe_limit(title: str, ready: int) -> str:
    most = format_count(MOST_COUNTED)
    return f"{title} has more than {most} ready jobs, of which only {most} were read" if ready > MOST_COUNTED else ""


def _combine(
    counts: Mapping[str, JobCounts],
    figure_of: Callable[[str, JobCounts], _Figure],
    combine: Callable[[Iterable[float]], float],
) -> _Figure:
    """Return the figure of all queues together: of those that are known, and why others are missing."""
    figures = [figure_of(title, one) for title, one in counts.items()]
    values = [figure.value for figure in figures if figure.value is not None]
    reasons = [figure.why_not for figure in figures if figure.why_not]
    if not figures:
        reasons = [_NOTHING]
    return _Figure(combine(values) if values else None, "; ".join(reasons))


def _describe(metric: str, statistic: str, readings: Sequence[_Figure]) -> UncertainMetric | None:
    position, when = _OF_ONE_READING.get(statistic, (None, ""))
    concerned = readings if position is None else [readings[position]] if readings else []
    partial = [figure for figure in concerned if figure.why_not]
    if not partial:
        return None
    if position is None:
        when = f"at {format_count(len(partial))} of {format_plural(len(readings), 'reading')}"
    is_anything_known = any(figure.value is not None for figure in concerned)
    is_always_known = all(figure.value is not None for figure in concerned)
    return UncertainMetric(
        metric=metric,
        why=f"{partial[-1].why_not}, {when}",
        # Looks without a figure can have been lower than the others, but do not make their largest smaller. A slope has no bound.
        is_at_least=is_anything_known if statistic == "max" else is_always_known and statistic != "slope",
    )
