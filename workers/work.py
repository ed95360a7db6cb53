"""What a job's work is: it takes its time, and fails, lasts, or kills its worker where a job_fault says so."""

from __future__ import annotations

import json
import os
import random
import signal
import time
from collections.abc import Mapping

from stallbench.injection.job_faults import JobFault, JobFaults
from stallbench.processes.role import send_message
from stallbench.queues import Claim


class WorkFailedError(Exception):
    """The job's work failed, as the application's code would raise; the message is for the queue."""


class Work:
    """Does the work of one worker's jobs, one after the other."""

    def __init__(self, work_s: float, job_faults: JobFaults, chance: random.Random) -> None:
        """``work_s``: how long a job takes if nothing is wrong."""
        self._work_s = work_s
        self._job_faults = job_faults
        self._random = chance
        self._met: set[str] = set()

    def do(self, claim: Claim) -> None:
        """Work a job; raises `WorkFailedError` if it fails."""
        struck = {name: job_fault for name, job_fault in self._job_faults.look().items() if self._is_struck(claim, job_fault)}
        self.describe(struck)
        lasting_s = [job_fault.takes_s for job_fault in struck.values() if job_fault.takes_s is not None]
        time.sleep(max(lasting_s, default=self._work_s))
        # One that has been lifted meanwhile is mended code, and kills nobody.
        if any(job_fault.kills and self._job_faults.announce_death(name) for name, job_fault in struck.items()):
            os.kill(os.getpid(), signal.SIGKILL)
        failing = [name for name, job_fault in struck.items() if job_fault.fails]
        if failing:
            raise WorkFailedError(f"what the job needs is not there ({', '.join(failing)})")

    def describe(self, met: Mapping[str, JobFault]) -> None:
        """Say of each job_fault, once, that it has been met: by that the bench knows that it works."""
        for name in met.keys() - self._met:
            self._met.add(name)
            send_message(met=name)

    def _is_struck(self, claim: Claim, job_fault: JobFault) -> bool:
        if not (job_fault.kills or job_fault.fails or job_fault.takes_s is not None):
            return False
        if job_fault.mark is not None and json.loads(claim.payload).get("mark") != job_fault.mark:
            return False
        return job_fault.share >= 1 or self._random.random() < job_fault.share
