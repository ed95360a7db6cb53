"""Kills or stops this process at a crash point, if an active job fault says so. Producers, workers and schedulers pass their points here."""

from __future__ import annotations

import os
import random
import signal
from collections import Counter
from collections.abc import Callable
from typing import Any, TypeVar

from stallbench.injection.job_faults import JobFault, JobFaults
from stallbench.queues import Queue
from stallbench.queues.crash_points import CrashPoint

ResultT = TypeVar("ResultT")


class Crashes:
    """The crashes of one process. Each fault counts and draws separately, so that its seed decides which passages crash.

    The process reads the active job faults once for each job (`JobFaults.read_active`). So a fault that begins during a job has its first effect in
    the next job. A fault that has ended since then has no effect: `JobFaults.announce` checks that.
    """

    def __init__(self, job_faults: JobFaults) -> None:
        """Crash as ``job_faults`` say."""
        self._job_faults = job_faults
        self._passages: Counter[str] = Counter()
        """How often a point was passed while a fault was active there, by the fault's name."""
        self._random: dict[str, random.Random] = {}
        self._observed: Queue[Any] | None = None
        self._inside: CrashPoint | None = None
        self._job_id: int | None = None
        self._answers = 0

    def passes(self, point: CrashPoint, job_id: int | None = None) -> None:
        """Be at ``point`` with the job ``job_id``, if there is one: the process may be killed, or stopped for a while, before this returns."""
        for name, fault in list(self._job_faults.last_read.items()):
            if fault.at is point and self._is_due(name, fault):
                self._crash(name, fault, job_id)

    def crash_point_around(
        self, point: CrashPoint, queue: Queue[Any], call: Callable[[], ResultT], job_id: int | None = None
    ) -> ResultT:
        """Make a call of ``queue`` and return its result. Pass ``point`` at each answer of a server or, if the queue does not report answers, when
        the call has returned.
        """
        if all(fault.at is not point for fault in self._job_faults.last_read.values()):
            return call()
        if self._observed is not queue:
            self._observed = queue
            queue.observe_answers(self._take_answer)
        self._inside, self._job_id, self._answers = point, job_id, 0
        try:
            result = call()
        finally:
            self._inside = None
        if not self._answers:
            self.passes(point, job_id)
        return result

    def _take_answer(self) -> None:
        if self._inside is not None:
            self._answers += 1
            self.passes(self._inside, self._job_id)

    def _is_due(self, name: str, fault: JobFault) -> bool:
        self._passages[name] += 1
        if fault.in_turn:
            return self._passages[name] == self._find_turn(fault)
        if fault.every_nth is not None:
            return self._passages[name] % fault.every_nth == 0
        chance = self._random.setdefault(name, random.Random(f"{fault.seed} {self._job_faults.process}"))
        return chance.random() < fault.share

    def _find_turn(self, fault: JobFault) -> int:
        """Return the passage at which this process crashes with ``in_turn``: each process crashes at another passage, so that no two crash between
        the same statements.

        The processes that ran when the fault began crash at the first passage, the second, and so on. Their replacements follow: with two
        workers, ``worker-1-2`` crashes at the third and ``worker-2-2`` at the fourth.
        """
        own, generation = _split(self._job_faults.process)
        for turn, (name, first_generation) in enumerate(map(_split, fault.first), start=1):
            if name == own:
                return turn + len(fault.first) * (generation - first_generation)
        return generation

    def _crash(self, name: str, fault: JobFault, job_id: int | None) -> None:
        """Announce the crash, then crash. Nothing is flushed or cleaned up: only the kernel informs the server."""
        assert fault.crash is not None
        if not self._job_faults.announce(name, fault.crash, job_id):
            return
        os.kill(os.getpid(), signal.SIGKILL if fault.crash == "kill" else signal.SIGSTOP)


def _split(process: str) -> tuple[str, int]:
    """Return the name of the process that it and its predecessors replaced, and its number in that sequence: ``worker-3-2`` is the second
    ``worker-3``.
    """
    parts = process.split("-")
    length = 1 if parts[0] == "scheduler" else 2
    generation = parts[length] if len(parts) > length else ""
    return "-".join(parts[:length]), int(generation) if generation.isdecimal() else 1
