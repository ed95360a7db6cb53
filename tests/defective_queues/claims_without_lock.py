"""Defect: a claim reads the first job and locks nothing."""

from __future__ import annotations

from stallbench.queues.skip_locked import SkipLocked
from tests.defective_queues.seeded_defect import SeededDefect


class ClaimsWithoutLock(SeededDefect, SkipLocked):
    """Several workers get the same job."""

    caught_by = "duplicates"
    statements = SkipLocked.statements | {
        "claim": SkipLocked.statements["claim"].replace("FOR UPDATE SKIP LOCKED", ""),
    }
