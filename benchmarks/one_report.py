"""``python -m benchmarks.one_report ADDRESS [--runs N]``: what one report of `stallbench observe --once` takes beside the server.

The password of ADDRESS is read from PGPASSWORD. It prints the median time, processor time (of the process and of all that it starts) and peak memory.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import time
from typing import NamedTuple

_KB = 1024


class Taken(NamedTuple):
    """What one report took."""

    duration_s: float
    cpu_s: float
    peak_bytes: int


def measure(address: str) -> Taken:
    """Print one report to nowhere; raises `SystemExit` if it fails."""
    argv = [sys.executable, "-m", "stallbench.cli", "observe", "--dsn", address, "--once"]
    began_s = time.monotonic()
    process = subprocess.Popen(argv, stdout=subprocess.DEVNULL)
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode != 0:
        raise SystemExit(f"observe ended with exit code {process.returncode}")
    return Taken(time.monotonic() - began_s, used.ru_utime + used.ru_stime, used.ru_maxrss * _KB)


def main() -> None:
    """Measure, and print the medians."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.one_report")
    parser.add_argument("address")
    parser.add_argument("--runs", type=int, default=5)
    chosen = parser.parse_args()
    taken = [measure(chosen.address) for _ in range(chosen.runs)]
    duration_s, cpu_s, peak_bytes = (statistics.median(values) for values in zip(*taken, strict=True))
    print(
        f"median of {chosen.runs}: {duration_s:.2f} s, {cpu_s:.2f} CPU-s, {peak_bytes / 1e6:.0f} MB; load average {os.getloadavg()[0]:.1f}"
    )


if __name__ == "__main__":
    main()
