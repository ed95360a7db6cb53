"""Runs one collector: takes its samples on time, writes them, and reports when it fails and when it recovers.

Each collector has its own thread, which mostly waits. A collector that waits for a server does not delay the others, so the host is sampled
even if a server is down. Measurements show that the threads cost no more than one loop over all collectors.
"""

from __future__ import annotations

import math
import sys
import threading
import time
import traceback
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path

import psutil

from stallbench.engines import loaded_errors
from stallbench.engines.collectors.collector import Collector
from stallbench.engines.collectors.connections import NotMeasuredError
from stallbench.engines.driver import SAMPLING_TIMEOUT_S
from stallbench.processes.role import Stop
from stallbench.records.samples import Sample, SampleLog
from stallbench.run.sampling.own_cost import OwnCost
from stallbench.visible_text import make_visible

HANGING_S = SAMPLING_TIMEOUT_S + 3.0
"""A sample that takes longer waits for a server whose own timeouts have no effect."""
_GREATEST_SHARE = 0.25
"""Share of the time that a collector may take. A collector whose query has become expensive (a count over a million rows) samples less often,
so that it does not become the load that it measures."""
_LONGEST_REST_S = 5.0
"""After a sample that took very long: it may have been the only one."""


class Cadence:
    """When a collector samples: at equal intervals from its start, so that samples do not drift, and less often if sampling is slow.

    A missed sample is counted and not taken later.
    """

    def __init__(self, interval_s: float, start_s: float) -> None:
        """Sample at ``start_s`` on the monotonic clock, and every ``interval_s`` after it."""
        self._interval_s = interval_s
        self._start_s = start_s
        self._tick: int | None = None
        self.missed = 0
        """Samples missed so far."""

    def next_s(self, began_s: float, ended_s: float, every_s: float = 0.0) -> float:
        """Return when the next sample is due, after one that took from ``began_s`` to ``ended_s``, and ``every_s`` after its predecessor's time at least."""
        took_s = ended_s - began_s
        is_first = self._tick is None  # it includes the connection, so it does not show what a sample takes
        rest_s = 0.0 if is_first else min(took_s / _GREATEST_SHARE - took_s, _LONGEST_REST_S)
        tick = int((ended_s + rest_s - self._start_s) // self._interval_s) + 1
        if self._tick is not None:
            tick = max(tick, self._tick + max(1, math.ceil(every_s / self._interval_s)))
            self.missed += tick - self._tick - 1
        self._tick = tick
        return self._start_s + tick * self._interval_s


class Sampler:
    """One collector, its sampling times and its file."""

    def __init__(
        self,
        collector: Collector,
        samples: Path,
        own_cost: OwnCost,
        *,
        interval_s: float,
        start_s: float,
        stop: Stop,
        observe: Callable[[Sequence[Sample]], None] | None = None,
    ) -> None:
        """Open its file in the folder ``samples``; ``start_s`` is when its first sample is due, on the monotonic clock.

        ``observe`` receives what is written.
        """
        self.name = collector.name
        self.fatal: OSError | None = None
        """Why its records could not be written."""
        self.why = "it has not answered yet"
        """Why the last sample was not wholly measured; empty if it was."""
        self.measured_once = threading.Event()
        """Set when a sample was wholly measured for the first time."""
        self._collector = collector
        self._path = samples / f"{collector.name}.csv"
        self._log = SampleLog(self._path, observe)
        self._own_cost = own_cost
        self._cadence = Cadence(max(interval_s, collector.shortest_interval_s), start_s)
        self._stop = stop
        self._failures = 0
        self._asked_s: float | None = None
        self._reported = ""
        self._broke_s = 0.0
        self._thread = threading.Thread(target=self._run, name=collector.name, daemon=True)

    def start(self) -> None:
        """Start, with a first sample at once."""
        self._thread.start()

    def end(self, within_s: float) -> bool:
        """Wait for the last sample and close everything; returns whether it came in time."""
        self._thread.join(within_s)
        if self._thread.is_alive():
            self._collector.connections.abort()
            self._thread.join(1.0)
        if self._thread.is_alive():
            return False
        self._collector.close()
        self._log.close()
        return True

    def break_off_if_hanging(self, now_s: float) -> None:
        """Abort a sample that has been waiting for longer than any timeout allows."""
        asked_s = self._asked_s
        if asked_s is not None and now_s - asked_s > HANGING_S:
            self._collector.connections.abort()

    def _run(self) -> None:
        try:
            now_s = time.monotonic()
            next_s = self._sample(now_s)
            while not self._stop.wait(max(0.0, next_s - time.monotonic())):
                next_s = self._sample(next_s)
            self._sample(time.monotonic())
        except OSError as error:
            self.fatal = OSError(
                error.errno, f"{self._path.parent.name}/{self._path.name} cannot be written: {error.strerror or error}"
            )
            self._stop.event.set()

    def _sample(self, due_s: float) -> float:
        """Take one sample and write it, even an incomplete one. Returns when the next sample is due.

        Raises `OSError` when it could not be written.
        """
        began_s, t_ns = time.monotonic(), time.time_ns()
        self._asked_s = began_s
        samples: list[Sample] = []
        why = ""
        try:
            for sample in self._collector.sample():
                samples.append(sample)
        except Exception as error:  # noqa: BLE001 - any error of a collector is recorded, and does not stop the others
            why = _describe(error)
        self._asked_s = None
        self._log.write(t_ns, samples)
        ended_s = time.monotonic()
        self._failures += bool(why)
        self._own_cost.record(
            self.name,
            t_ns,
            sample_ms=(ended_s - began_s) * 1e3,
            late_ms=(began_s - due_s) * 1e3,
            missed_samples=self._cadence.missed,
            failures=self._failures,
        )
        self._note(why, began_s)
        return self._cadence.next_s(began_s, ended_s, self._collector.every_s)

    def _note(self, why: str, now_s: float) -> None:
        """Print to standard error why sampling fails, each reason once, and when it works again."""
        if why and not self.why:
            self._broke_s = now_s
        if why and why != self._reported:
            _say(f"{self.name}: {why}")
        elif not why and self._reported:
            _say(f"{self.name}: samples again after {now_s - self._broke_s:.1f} s")
        self.why = self._reported = why
        if not why:
            self.measured_once.set()


def _describe(error: Exception) -> str:
    """Return the error in one line, with a traceback if only a bug in the collector can cause it."""
    if isinstance(error, NotMeasuredError):
        return str(error)
    if isinstance(error, (OSError, psutil.Error, *loaded_errors())):
        return f"{type(error).__name__}: {' '.join(str(error).split())}"
    return "".join(traceback.format_exception(error)).strip()


def _say(text: str) -> None:
    at = datetime.now(UTC).isoformat(timespec="milliseconds")
    sys.stderr.write(f"{at} {make_visible(text)}\n")
    sys.stderr.flush()
