"""The figures of a queue as text: what was counted up to a limit is said to be at least so many."""

from __future__ import annotations

from stallbench.base.number_text import format_count
from stallbench.observe.formatting import format_age
from stallbench.observe.postgres.job_counts import MOST_COUNTED, MOST_RUNNING, JobCounts
from stallbench.observe.postgres.recognition import QueueTable


def summarize(table: QueueTable, counts: JobCounts, change: str) -> str:
    """Return a queue's counts as one line. ``change``: of its ready jobs; empty if it is not known."""
    if counts.ready is None:
        return f"{table.title}: not counted"
    longest = f"the longest for {_say_running_at_least(counts)}{format_age(counts.longest_s)}"
    parts = [
        f"{format_at_least(counts.ready, MOST_COUNTED)} ready" + (f" ({change})" if change else ""),
        f"the oldest for {format_oldest(counts)}" if counts.oldest_s is not None else "",
        f"{format_at_least(counts.running, MOST_RUNNING)} running" if counts.running is not None else "",
        longest if counts.longest_s is not None else "",
    ]
    return f"{table.title}: {', '.join(part for part in parts if part)}"


def list_figures(table: QueueTable, counts: JobCounts, change: str) -> tuple[str, ...]:
    """Return a queue's counts as a row: queue, ready, change, oldest ready, running, longest, overdue for rescue."""
    return (
        table.title,
        format_at_least(counts.ready, MOST_COUNTED),
        change,
        format_oldest(counts),
        format_at_least(counts.running, MOST_RUNNING) if counts.running is not None else "",
        _say_running_at_least(counts) + format_age(counts.longest_s) if counts.longest_s is not None else "",
        format_overdue(counts) if counts.overdue is not None else "",
    )


def format_at_least(count: int | None, limit: int) -> str:
    """Return a count that stopped at ``limit``; ``?`` if it is unknown."""
    if count is None:
        return "?"
    return f"at least {format_count(limit)}" if count > limit else format_count(count)


def format_oldest(counts: JobCounts) -> str:
    """Return for how long the oldest ready job has waited; empty if there is none."""
    if counts.oldest_s is None:
        return ""
    at_least = "at least " if (counts.ready or 0) > MOST_COUNTED else ""
    return f"{at_least}{format_age(counts.oldest_s)}"


def format_overdue(counts: JobCounts) -> str:
    """Return how many running jobs are overdue for their rescue."""
    return _say_running_at_least(counts) + format_count(min(counts.overdue or 0, MOST_RUNNING))


def _say_running_at_least(counts: JobCounts) -> str:
    """Return what precedes a figure of the running jobs if not all of them were read."""
    return "at least " if (counts.running or 0) > MOST_RUNNING else ""
