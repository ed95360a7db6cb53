"""The crash points: where the fault ``crash_point`` kills or stops a process of the load. One definition for processes, fault and reports."""

from __future__ import annotations

from enum import StrEnum


class CrashPoint(StrEnum):
    """A moment between two operations, or between two statements of one operation.

    A point of a call (``before_.._acknowledged``, ``between_steps``) is passed after each answer of the server to a statement of the call, before the
    queue acts on that answer. If the queue does not report answers (`stallbench.queues.Queue.observe_answers`), it is passed once: when the call has
    returned and nothing is recorded yet.
    """

    BEFORE_ENQUEUE_ACKNOWLEDGED = "before_enqueue_acknowledged"
    """A producer has sent its jobs, and does not know yet whether they are in the queue."""
    AFTER_ENQUEUE_ACKNOWLEDGED = "after_enqueue_acknowledged"
    """The queue has confirmed the jobs; the producer's next operation has not begun."""
    BEFORE_CLAIM_ACKNOWLEDGED = "before_claim_acknowledged"
    """The server may have given a job to the worker, but the worker has not received it yet."""
    AFTER_CLAIM = "after_claim"
    """The worker has the job; its work has not begun."""
    DURING_WORK = "during_work"
    """Half of the job's work is done."""
    BEFORE_COMPLETION = "before_completion"
    """The work is done; the completion has not been sent."""
    BEFORE_COMPLETION_ACKNOWLEDGED = "before_completion_acknowledged"
    """The completion has been sent, and the worker does not know yet whether it was stored."""
    AFTER_COMPLETION_ACKNOWLEDGED = "after_completion_acknowledged"
    """The queue has confirmed the completion; the worker's next operation has not reached the server."""
    BETWEEN_STEPS = "between_steps"
    """A scheduler or mover is between two statements of an iteration, or between two iterations."""

    @property
    def role(self) -> str:
        """The role of the processes that pass the point."""
        if self in (CrashPoint.BEFORE_ENQUEUE_ACKNOWLEDGED, CrashPoint.AFTER_ENQUEUE_ACKNOWLEDGED):
            return "producer"
        return "scheduler" if self is CrashPoint.BETWEEN_STEPS else "worker"


LIBRARY_WORKER_POINTS = (
    CrashPoint.AFTER_CLAIM,
    CrashPoint.DURING_WORK,
    CrashPoint.BEFORE_COMPLETION,
    CrashPoint.AFTER_COMPLETION_ACKNOWLEDGED,
)
"""Points that the worker of a published library passes: the start, the middle and the end of its handler, and the record of the completion."""
