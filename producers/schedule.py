"""Computes when each job is due: an open-loop schedule that depends only on start time and rate.

A producer that falls behind does not move the schedule: a late job keeps its due time, and latency counts
from there.
"""

from __future__ import annotations

from dataclasses import dataclass

from stallbench.records.nanoseconds import NS_PER_S


@dataclass(frozen=True, slots=True, kw_only=True)
class Schedule:
    """Evenly spaced arrivals."""

    rate: float
    """Jobs a second."""
    offset_s: float = 0.0
    """When the first job is due, so that several producers are interleaved."""

    def due_ns(self, n: int) -> int:
        """Due time of job ``n``, counted from 0, in nanoseconds from the start."""
        return int((self.offset_s + n / self.rate) * NS_PER_S)

    def due_count(self, elapsed_ns: int) -> int:
        """Number of jobs due up to ``elapsed_ns`` after the start."""
        count = max(0, int((elapsed_ns / NS_PER_S - self.offset_s) * self.rate))
        while self.due_ns(count) <= elapsed_ns:
            count += 1
        while count > 0 and self.due_ns(count - 1) > elapsed_ns:
            count -= 1
        return count

    def call_ns(self, n: int, *, max_batch: int, linger_s: float) -> int:
        """Time of the enqueue call that begins with job ``n``: when it has waited for ``linger_s``, or earlier when ``max_batch`` jobs are due."""
        return min(self.due_ns(n) + int(linger_s * NS_PER_S), self.due_ns(n + max_batch - 1))
