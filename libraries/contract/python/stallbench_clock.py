"""The time of the bench in an adapter in Python, also while the fault `clock_skew` changes the wall clock of the process.

Standard library only, like `stallbench_contract`.
"""

import time

OFF_NS = 20_000_000
"""From this difference on, a clock is off: what a thread may wait between the readings of two clocks is usually less."""


class Clock:
    """Reads the wall clock; if a scenario changes that of workers, the monotonic clock and the distance between the two that the bench gives."""

    def __init__(self, document):
        """Take the distance from the document, which has one only in such a scenario."""
        self.ahead_ns = document.get("clock_ns")

    def read(self):
        """Return the bench's time, in nanoseconds since 1970."""
        return time.time_ns() if self.ahead_ns is None else time.monotonic_ns() + self.ahead_ns

    def is_off(self):
        """Whether the process's wall clock shows another time, which it does while the fault is active."""
        return abs(time.time_ns() - self.read()) > OFF_NS
