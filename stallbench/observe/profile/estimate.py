"""Makes figures of a load out of the readings of an observation. What was not seen stays unknown."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

from stallbench.errors import NotCarriedOutError
from stallbench.observe.profile.levels import Span, find_levels, lengthen
from stallbench.observe.profile.reading import LoadReading, Sampled

FEWEST_READINGS = 5
_FEWEST_RUNNING = 10
"""Running jobs that all readings together must have seen for Little's law."""
_MOSTLY_FINISHED = 0.9
"""Share of finished jobs in a sample above which their work times are not biased to short ones."""
_MOST_KINDS = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class KindShare:
    """A kind of job without its name."""

    share: float
    payload_bytes: float | None
    work_s: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """The load of one queue: numbers, and how they were found."""

    readings: int
    seen_s: float
    """Time in which the enqueued jobs were counted."""
    missed_s: float
    levels: tuple[Span, ...]
    rate: float
    peak_rate: float
    """The highest of a time of at least `levels.SHORTEST_S`."""
    lowest_rate: float
    completed_rate: float | None
    backlog: int | None
    """Waiting jobs at the first reading."""
    deepest: int | None
    oldest_s: float | None
    workers: int
    workers_are_sessions: bool
    """Whether sessions were counted; otherwise the most jobs that ran at once."""
    work_s: float
    work_is_measured: bool
    """Whether the jobs' own columns have it; otherwise it follows from Little's law."""
    running: float | None
    """Mean number of running jobs."""
    sample: Sampled | None
    """Means of all samples; the percentiles are the largest sample's."""
    kinds: tuple[KindShare, ...]
    more_kinds: int
    """Kinds beyond those."""


def estimate_load(readings: Sequence[LoadReading]) -> Load:
    """Return the load; raises `NotCarriedOutError` with everything that is missing."""
    missing = []
    spans = [span for before, after in pairwise(readings) if (span := _count_enqueued(before, after))]
    longer = lengthen(spans)
    seen_s, jobs = sum(span.length_s for span in spans), sum(span.jobs for span in spans)
    if len(readings) < FEWEST_READINGS or not spans:
        missing.append(f"the rate: the queue was read {len(readings)} times, and {FEWEST_READINGS} are needed; observe longer")
    elif not jobs:
        missing.append("the rate: no job was enqueued")
    completed = _find_completed_rate(readings)
    running = [one.running for one in readings if one.running is not None]
    sample = _join([one.sampled for one in readings if one.sampled])
    workers, are_sessions = _find_workers(readings, running)
    if not workers:
        missing.append("the number of workers: no job was running at any reading, and no session was seen to claim one")
    work_s, is_measured = _find_work(running, completed, sample)
    if work_s is None:
        missing.append(f"the work time: the jobs do not have it, and {_explain_missing_work(running, completed)}")
    if missing or work_s is None:
        raise NotCarriedOutError("; ".join(missing))
    kinds = _list_kinds(readings)
    return Load(
        readings=len(readings),
        seen_s=seen_s,
        missed_s=max(0.0, readings[-1].at_s - readings[0].at_s - seen_s),
        levels=tuple(find_levels(longer)),
        rate=jobs / seen_s,
        peak_rate=max(span.rate for span in longer),
        lowest_rate=min(span.rate for span in longer),
        completed_rate=completed,
        backlog=readings[0].waiting,
        deepest=max((one.waiting for one in readings if one.waiting is not None), default=None),
        oldest_s=max((one.oldest_s for one in readings if one.oldest_s is not None), default=None),
        workers=workers,
        workers_are_sessions=are_sessions,
        work_s=work_s,
        work_is_measured=is_measured,
        running=sum(running) / len(running) if running else None,
        sample=sample,
        kinds=tuple(kinds[:_MOST_KINDS]),
        more_kinds=max(0, len(kinds) - _MOST_KINDS),
    )


def _count_enqueued(before: LoadReading, after: LoadReading) -> Span | None:
    """Return what was enqueued between two readings; none if a table was new, dropped or its counter was reset."""
    length_s = after.at_s - before.at_s
    if length_s <= 0 or before.inserted.keys() != after.inserted.keys():
        return None
    grown = [count - before.inserted[oid] for oid, count in after.inserted.items()]
    return None if any(jobs < 0 for jobs in grown) else Span(length_s, sum(grown))


def _find_completed_rate(readings: Sequence[LoadReading]) -> float | None:
    """Return jobs per second that left the queue: those that came less those that stayed."""
    jobs = over_s = 0.0
    for before, after in pairwise(readings):
        span, was, is_now = _count_enqueued(before, after), before.unfinished, after.unfinished
        if span is not None and was is not None and is_now is not None:
            jobs += span.jobs - (is_now - was)
            over_s += span.length_s
    return jobs / over_s if over_s and jobs > 0 else None


def _find_workers(readings: Sequence[LoadReading], running: Sequence[int]) -> tuple[int, bool]:
    sessions = max((one.worker_sessions for one in readings if one.worker_sessions is not None), default=0)
    at_once = max(running, default=0)
    return max(sessions, at_once), sessions >= max(at_once, 1)


def _find_work(running: Sequence[int], completed: float | None, sample: Sampled | None) -> tuple[float | None, bool]:
    """Return the mean work time, and whether it was measured."""
    measured_s = sample.work_s if sample else None
    if sample and measured_s is not None and sample.finished >= _MOSTLY_FINISHED * sample.jobs:
        return measured_s, True
    if completed and sum(running) >= _FEWEST_RUNNING:
        return sum(running) / len(running) / completed, False
    return measured_s, True


def _explain_missing_work(running: Sequence[int], completed: float | None) -> str:
    if not running:
        return "running jobs could not be counted"
    if sum(running) < _FEWEST_RUNNING:
        return f"all readings together saw {sum(running)} running jobs, of {_FEWEST_RUNNING} needed; observe longer, or with --every 1s"
    assert completed is None, "Little's law would have it"
    return "no completed job could be counted: none was completed, or waiting jobs were more than a count's limit"


def _join(samples: Sequence[Sampled]) -> Sampled | None:
    """Return the means of all samples, with the percentiles of the largest."""
    if not samples:
        return None
    largest = max(samples, key=lambda one: one.jobs)
    timed = max(samples, key=lambda one: one.finished)
    return Sampled(
        jobs=sum(one.jobs for one in samples),
        payload_bytes=_mean((one.payload_bytes, one.jobs) for one in samples),
        payload_p95_bytes=largest.payload_p95_bytes,
        payload_max_bytes=max((one.payload_max_bytes for one in samples if one.payload_max_bytes is not None), default=None),
        finished=sum(one.finished for one in samples),
        work_s=_mean((one.work_s, one.finished) for one in samples),
        work_p50_s=timed.work_p50_s,
        work_p95_s=timed.work_p95_s,
    )


def _mean(values: Iterable[tuple[float | None, int]]) -> float | None:
    known = [(value, weight) for value, weight in values if value is not None and weight]
    together = sum(weight for _, weight in known)
    return sum(value * weight for value, weight in known) / together if together else None


def _list_kinds(readings: Sequence[LoadReading]) -> list[KindShare]:
    """Return the kinds of jobs, the most frequent first."""
    samples: dict[int, list[Sampled]] = {}
    for reading in readings:
        for kind, sampled in reading.by_kind.items():
            samples.setdefault(kind, []).append(sampled)
    joined = sorted((one for each in samples.values() if (one := _join(each)) is not None), key=lambda one: -one.jobs)
    together = sum(one.jobs for one in joined)
    return [KindShare(share=one.jobs / together, payload_bytes=one.payload_bytes, work_s=one.work_s) for one in joined]
