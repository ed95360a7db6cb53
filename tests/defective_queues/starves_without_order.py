"""Defect: some jobs are never claimed, by a queue that promises no order."""

from __future__ import annotations

from stallbench.queues.skip_locked import SkipLocked
from tests.defective_queues.seeded_defect import SeededDefect


class StarvesWithoutOrder(SeededDefect, SkipLocked):
    """Looks into nine of ten buckets."""

    caught_by = "starvation"
    tried_under = "quiet"
    ordered = False
    statements = SkipLocked.statements | {
        "claim": SkipLocked.statements["claim"].replace("run_at <= now()", "run_at <= now() AND job_id % 10 <> 0"),
    }
