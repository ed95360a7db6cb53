"""Defect: a worker renews its claim before it completes the job, and does not look whether it still has it."""

from __future__ import annotations

from typing import Any

from stallbench.queues import Claim
from stallbench.queues.status_column import StatusColumn, StatusColumnOptions
from tests.defective_queues.seeded_defect import SeededDefect


class RenewsLostLease(SeededDefect, StatusColumn):
    """Takes the job back from the worker that has it, or has completed it, since the claim expired."""

    caught_by = "duplicates"
    tried_under = "pause_in_work"

    def __init__(self, connection: Any, options: StatusColumnOptions) -> None:
        """Add the renewal."""
        super().__init__(connection, options)
        self.statements = self.statements | {
            "renew": "UPDATE status_column_jobs SET status = 'claimed', claimed_at = now(), attempts = $2 WHERE job_id = $1"
        }

    def complete(self, claim: Claim) -> None:
        """Renew the claim, then complete the job."""
        self.execute("renew", *claim.handle)
        super().complete(claim)
