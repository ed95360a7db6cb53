"""What one reading of a queue saw of its load: numbers only."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class Sampled:
    """Figures of a bounded sample of jobs."""

    jobs: int
    payload_bytes: float | None = None
    """Mean, as stored."""
    payload_p95_bytes: float | None = None
    payload_max_bytes: float | None = None
    finished: int = 0
    """How many of them have a work time."""
    work_s: float | None = None
    """Mean of these."""
    work_p50_s: float | None = None
    work_p95_s: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadReading:
    """One reading. None is unknown."""

    at_s: float
    """On the monotonic clock."""
    inserted: Mapping[int, int]
    """By table with rows (its oid): inserts since the statistics were reset."""
    waiting: int | None = None
    """Ready jobs that no worker has."""
    oldest_s: float | None = None
    running: int | None = None
    """Without those that are overdue for their rescue, whose workers have probably died."""
    worker_sessions: int | None = None
    """Sessions that have claimed jobs, if each worker has one."""
    sampled: Sampled | None = None
    by_kind: Mapping[int, Sampled] = field(default_factory=dict)
    """The sample by kind of job; the key is a salted hash that only this observation knows."""

    @property
    def unfinished(self) -> int | None:
        """Jobs that are ready or running."""
        return None if self.waiting is None or self.running is None else self.waiting + self.running
