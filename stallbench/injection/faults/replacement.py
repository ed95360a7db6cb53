"""One worker that a deployment replaces: the old process ends, and a new one starts. If it ends before it is ready, it is started again."""

from __future__ import annotations

import random
import time
from dataclasses import dataclass

from stallbench.errors import NotCarriedOutError
from stallbench.injection.context import Load
from stallbench.processes.process import ROLE_READY_S, Process

_END_S = 5.0
"""How long a new worker that was not ready may take to end after it was asked to stop."""
_MOST_DOUBLINGS = 30
"""Upper limit of the doublings of the delay before a restart: large enough for any limit of the delay, and without overflow."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RestartPolicy:
    """When a new worker that ended before it was ready is started again."""

    after_s: float
    """Delay before the first restart."""
    max_after_s: float | None
    """The delay doubles with each further restart, up to this; none: it stays the same."""
    has_jitter: bool
    """Whether each delay is drawn between zero and the whole delay (full jitter)."""

    def draw_delay_s(self, failures: int, source: random.Random) -> float:
        """Return the delay after the ``failures``-th failure in a row (from 1)."""
        delay_s = self.after_s
        if self.max_after_s is not None:
            delay_s = min(delay_s * 2.0 ** min(failures - 1, _MOST_DOUBLINGS), max(delay_s, self.max_after_s))
        return source.uniform(0, delay_s) if self.has_jitter else delay_s


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplacementPolicy:
    """How a deployment replaces each worker."""

    starts_first: bool
    """Whether the new worker is ready before the old one is asked to stop; else it starts when the old one has ended."""
    grace_s: float
    ready_for_s: float
    """How long a new worker must have been ready before the old one is asked to stop."""
    restarts: RestartPolicy | None
    """None: a new worker that ends before it is ready ends the run."""


class Replacement:
    """An old worker and its successor. `go_on` does what is due."""

    def __init__(self, old: Process, policy: ReplacementPolicy, load: Load, source: random.Random) -> None:
        """Plan it; nothing is stopped or started. ``source``: of the jitter."""
        self.old = old
        self.is_complete = False
        self.was_killed = False
        """Whether the old worker still ran after the grace period."""
        self.stopped_after_s: float | None = None
        """How long the old worker took to end; none until it has."""
        self._failures = 0
        self._new_failures: list[str] = []
        self._policy = policy
        self._load = load
        self._random = source
        self._new: Process | None = None
        self._started_s = 0.0
        self._start_at_s = 0.0
        self._ready_s: float | None = None
        self._asked_s: float | None = None

    def go_on(self) -> None:
        """Do what is due now. Raises `NotCarriedOutError` if a new worker does not get ready."""
        steps = (self._start, self._stop) if self._policy.starts_first else (self._stop, self._start)
        self.is_complete = all(step() for step in steps)  # the second begins when the first is done

    def take_failures(self) -> list[str]:
        """Return, for each new worker that could not start since the last call, how it ended and what it printed last."""
        taken, self._new_failures = self._new_failures, []
        return taken

    def wind_up(self) -> bool:
        """Leave only one worker, because there is no time for the whole replacement: the new one if the old one was asked to stop or is redundant.
        Returns whether this is complete; call it again if not.
        """
        if self._policy.starts_first and self._asked_s is None and not (self._new and self._new.is_ready):
            self._end_start()
            return True
        if not self._stop():
            return False
        if self._new is None:
            self._launch()
        return True

    def _end_start(self) -> None:
        new, self._new = self._new, None
        if new is not None:
            new.stop(_END_S)
            if not new.is_ready:
                new.intended = "killed"  # a process that is still starting does not shut down cleanly

    def _stop(self) -> bool:
        if self.stopped_after_s is not None:
            return True
        now_s = time.monotonic()
        if self._asked_s is None:
            self.old.ask_to_stop()
            self._asked_s = now_s
        if self.old.poll() is None and now_s - self._asked_s > self._policy.grace_s:
            self.old.kill()
            self.was_killed = True
        if self.old.poll() is None:
            return False
        self.stopped_after_s = now_s - self._asked_s
        return True

    def _start(self) -> bool:
        now_s = time.monotonic()
        if self._ready_s is not None:
            return now_s >= self._ready_s + (self._policy.ready_for_s if self._policy.starts_first else 0)
        if self._new is None:
            if now_s >= self._start_at_s:
                self._launch()
        elif self._new.is_ready:
            self._ready_s = now_s
        elif self._new.poll() is not None:
            self._plan_restart(self._new, now_s)
        elif now_s > self._started_s + ROLE_READY_S:
            raise NotCarriedOutError(f"{self._new.name} did not get ready within {ROLE_READY_S:.0f} s{self._new.tail_log()}")
        return False

    def _launch(self) -> None:
        self._new = self._load.replace(self.old)
        self._new.may_fail_to_start = self._policy.restarts is not None
        self._started_s = time.monotonic()

    def _plan_restart(self, ended: Process, now_s: float) -> None:
        if self._policy.restarts is None:
            raise NotCarriedOutError(f"{ended.name} did not get ready{ended.tail_log()}")
        ended.intended = "restarted"
        self._failures += 1
        self._new_failures.append(f"{ended.describe_end()}{ended.tail_log()}")
        self._start_at_s = now_s + self._policy.restarts.draw_delay_s(self._failures, self._random)
        self._new = None
