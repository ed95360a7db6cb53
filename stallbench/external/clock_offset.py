"""How far this host's clock is from the primary's, so that times that processes of several hosts have written can be held together."""

from __future__ import annotations

import time

from pydantic import BaseModel

from stallbench.engines import driver_of
from stallbench.records.endpoint import Endpoint

_ASKED = 8


class ClockOffset(BaseModel, frozen=True):
    """What has to be added to a clock to get the primary's, and how far off that may be; both in ns."""

    offset_ns: int
    error_ns: int


def measure_clock_offset(endpoint: Endpoint, name: str) -> ClockOffset | None:
    """Ask the server some times for its clock, and trust the answer that came soonest; none if the engine does not tell its time.

    The server has looked at its clock between the question and the answer: half of the way there and back is the greatest error, as in
    Cristian's algorithm. Raises one of the driver's errors when the server cannot be reached.
    """
    driver = driver_of(endpoint.engine)
    connection = driver.connect(endpoint, name)
    try:
        measured = []
        for _ in range(_ASKED):
            before_ns, began_ns = time.time_ns(), time.monotonic_ns()
            there_ns = driver.read_clock(connection)
            took_ns = time.monotonic_ns() - began_ns
            if there_ns is None:
                return None
            measured.append(ClockOffset(offset_ns=there_ns - (before_ns + took_ns // 2), error_ns=took_ns // 2))
        return min(measured, key=lambda each: each.error_ns)
    finally:
        driver.close(connection)
