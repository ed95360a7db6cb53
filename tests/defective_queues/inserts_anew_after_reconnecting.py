"""Defect: a job whose completion failed on a lost connection is inserted again, although its deletion was rolled back."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import psycopg

from stallbench.queues import Claim
from stallbench.queues.skip_locked import SkipLocked
from tests.defective_queues.seeded_defect import SeededDefect


class InsertsAnewAfterReconnecting(SeededDefect, SkipLocked):
    """Fears for the job, which is still in the table, and has it executed twice under two ids."""

    caught_by = "conservation"
    tried_under = "lost_connections"
    feared_for: ClassVar[list[str]] = []

    def claim(self) -> Sequence[Claim]:
        """Insert what the former connection had, then claim."""
        while self.feared_for:
            self.execute("enqueue", self.feared_for[-1].encode())
            self.feared_for.pop()
        return super().claim()

    def complete(self, claim: Claim) -> None:
        """Delete the job, or remember it."""
        try:
            super().complete(claim)
        except psycopg.OperationalError:
            self.feared_for.append(claim.payload)
            raise
