"""Wall clocks of a library's workers, which the fault ``clock_skew`` changes.

The bench's own workers ask the bench for the time. Those of a library ask the operating system, so libfaketime answers: a shared library that the
dynamic linker loads before all others, and that adds to the wall clock what a file says. The monotonic clock is not changed. By it the workers
record their events: the bench tells each the distance between the two clocks.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from pathlib import Path

from stallbench.discovery import LIBRARY_PREFIX
from stallbench.injection.choices import FaultChoice
from stallbench.injection.job_faults import JobFaults
from stallbench.setup.libfaketime import require_libfaketime

CLOCK_SKEW = "clock_skew"
"""The kind of the fault."""
NOTICED_AFTER_S = 1
"""How old a process's knowledge of its file may be. libfaketime reads it no more often, because programs read the clock often."""


def are_changed(queue: str, faults: Iterable[FaultChoice]) -> bool:
    """Whether one of a run's ``faults`` changes the clocks of the workers of ``queue``, a library."""
    return queue.startswith(LIBRARY_PREFIX) and any(fault.kind == CLOCK_SKEW for fault in faults)


class WorkerClocks:
    """The file of each worker."""

    def __init__(self, folder: Path, job_faults: Path) -> None:
        """Keep the files in ``folder``. ``job_faults``: the folder of the active job faults. Raises `MissingComponentError` without libfaketime."""
        self._libfaketime = require_libfaketime()
        self._folder = folder
        self._job_faults = job_faults

    def prepare(self, worker: str) -> tuple[Mapping[str, str], dict[str, object]]:
        """Return the environment of a worker that is about to start, and what its document says about clocks."""
        self._folder.mkdir(exist_ok=True)
        self.set(worker)
        environment = {
            "LD_PRELOAD": str(self._libfaketime),
            "FAKETIME_TIMESTAMP_FILE": str(self._file(worker)),
            "FAKETIME_CACHE_DURATION": str(NOTICED_AFTER_S),
            "FAKETIME_DONT_FAKE_MONOTONIC": "1",
            "FAKETIME_FORCE_MONOTONIC_FIX": "0",  # with it, a Java thread that waits with a time limit does not wait
            "NO_FAKE_STAT": "1",
        }
        return environment, {"clock_ns": time.time_ns() - time.monotonic_ns()}

    def set(self, worker: str) -> None:
        """Set a worker's clock to what the active faults want."""
        active = JobFaults(self._job_faults, worker).read_active().values()
        fresh = self._file(worker).with_suffix(".new")
        fresh.write_text(f"{sum(fault.clock_offset_s for fault in active):+.3f}\n")
        fresh.replace(self._file(worker))

    def _file(self, worker: str) -> Path:
        return self._folder / f"{worker}.txt"
