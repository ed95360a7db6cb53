"""Defect: as long as fresh jobs come, old ones wait."""

from __future__ import annotations

from stallbench.queues.skip_locked import SkipLocked
from tests.defective_queues.seeded_defect import SeededDefect


class StarvesOldJobs(SeededDefect, SkipLocked):
    """Prefers what was enqueued within the last second."""

    caught_by = "order"
    statements = SkipLocked.statements | {
        "claim": SkipLocked.statements["claim"].replace(
            "ORDER BY job_id", "ORDER BY enqueued_at < clock_timestamp() - interval '1 second', job_id"
        ),
    }
