"""Executes a job: its work is a pause. If a job fault is active, the work takes longer, fails, or kills the worker."""

from __future__ import annotations

import json
import os
import random
import signal
import time
from collections.abc import Mapping

from stallbench.injection.crashes import Crashes
from stallbench.injection.job_faults import JobFault, JobFaults
from stallbench.processes.role import send_message
from stallbench.queues import Claim
from stallbench.queues.crash_points import CrashPoint


class WorkFailedError(Exception):
    """The job's work failed, as after an error in the application's code; the message is for the queue."""


class Work:
    """Does the work of one worker's jobs, one after the other."""

    def __init__(self, work_s: float, job_faults: JobFaults, crashes: Crashes, chance: random.Random) -> None:
        """``work_s``: seconds that the work of a job takes without a job fault."""
        self._work_s = work_s
        self._job_faults = job_faults
        self._crashes = crashes
        self._random = chance
        self._met: set[str] = set()

    def do(self, claim: Claim) -> None:
        """Work a job; raises `WorkFailedError` if it fails."""
        active = self._job_faults.read_active()
        if not active:
            _pause(self._work_s)
            return
        met = {name: job_fault for name, job_fault in active.items() if self._meets(claim, job_fault)}
        self.report(met)
        lasting_s = [job_fault.takes_s for job_fault in met.values() if job_fault.takes_s is not None]
        takes_s = max(lasting_s, default=self._work_s)
        _pause(takes_s / 2)
        self._crashes.passes(CrashPoint.DURING_WORK, claim.job_id)
        _pause(takes_s / 2)
        # A job fault that has ended meanwhile no longer kills a worker.
        if any(job_fault.kills and self._job_faults.announce(name, job_id=claim.job_id) for name, job_fault in met.items()):
            os.kill(os.getpid(), signal.SIGKILL)
        failing = [name for name, job_fault in met.items() if job_fault.fails]
        if failing:
            raise WorkFailedError(f"a dependency of the job is unavailable ({', '.join(failing)})")

    def report(self, met: Mapping[str, JobFault]) -> None:
        """Report each job fault to the bench when it first affects a job. This verifies that the fault is active."""
        for name in met.keys() - self._met:
            self._met.add(name)
            send_message(met=name)

    def _meets(self, claim: Claim, job_fault: JobFault) -> bool:
        if not (job_fault.kills or job_fault.fails or job_fault.takes_s is not None):
            return False
        if job_fault.mark is not None and json.loads(claim.payload).get("mark") != job_fault.mark:
            return False
        return job_fault.share >= 1 or self._random.random() < job_fault.share


def _pause(duration_s: float) -> None:
    if duration_s:  # even to sleep for 0 s ends the time slice of the process, so that another one runs first
        time.sleep(duration_s)
