"""Defect: a completion finds its job by the time of its enqueue, which the jobs of one transaction share."""

from __future__ import annotations

from stallbench.queues.skip_locked import SkipLocked
from tests.defective_queues.seeded_defect import SeededDefect


class DeletesByTimestamp(SeededDefect, SkipLocked):
    """Deletes jobs that were enqueued with the one that is done."""

    caught_by = "conservation"
    tried_under = "quiet"
    statements = SkipLocked.statements | {
        "complete": "DELETE FROM skip_locked_jobs WHERE enqueued_at = (SELECT enqueued_at FROM skip_locked_jobs WHERE job_id = $1)",
    }
