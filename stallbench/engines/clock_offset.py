"""Measures the offset between this host's clock and the primary's, so that times from several hosts can be compared."""

from __future__ import annotations

import time

from stallbench.engines import driver_of
from stallbench.processes.record import ClockOffset
from stallbench.records.endpoint import Endpoint

_REQUESTS = 8


def measure_clock_offset(endpoint: Endpoint, name: str) -> ClockOffset | None:
    """Read the server's clock several times and keep the quickest answer; none if the engine does not report its time.

    The server reads its clock between the request and the answer. The greatest possible error is therefore half of the
    round trip (Cristian's algorithm). Raises one of the driver's errors when the server cannot be reached.
    """
    driver = driver_of(endpoint.engine)
    connection = driver.connect(endpoint, name)
    try:
        measured = []
        for _ in range(_REQUESTS):
            before_ns, began_ns = time.time_ns(), time.monotonic_ns()
            server_ns = driver.read_clock(connection)
            took_ns = time.monotonic_ns() - began_ns
            if server_ns is None:
                return None
            measured.append(ClockOffset(offset_ns=server_ns - (before_ns + took_ns // 2), error_ns=took_ns // 2))
        return min(measured, key=lambda each: each.error_ns)
    finally:
        driver.close(connection)
