"""Defect: the last job is the first."""

from __future__ import annotations

from stallbench.queues.skip_locked import SkipLocked
from tests.defective_queues.seeded_defect import SeededDefect


class ReversesOrder(SeededDefect, SkipLocked):
    """Says that it keeps the order, and is a stack."""

    caught_by = "order"
    statements = SkipLocked.statements | {
        "claim": SkipLocked.statements["claim"].replace("ORDER BY job_id", "ORDER BY job_id DESC"),
    }
