"""What a failover does with a replica: it applies what it has received, and then accepts writes."""

from __future__ import annotations

from abc import ABC, abstractmethod

from stallbench.records.endpoint import Endpoint
from stallbench.records.injections import Evidence

SKIPPED_IDS = 1_000_000
"""How many ids the new primary skips. The dead primary may have issued ids that the replica never received, and no two jobs may have the
same id. Runbooks recommend this so that ids that customers have seen keep their meaning; the bench identifies jobs by their ids."""
APPLIED_S = 30.0
"""How long the replica may take."""


class Replication(ABC):
    """The replication of one family of engines."""

    @abstractmethod
    def find_bytes_behind(self, primary: Endpoint, replica: Endpoint, name: str) -> int | None:
        """Return how many bytes of the primary's log the replica ``name`` has not received; none if neither server reports it."""

    @abstractmethod
    def promote(self, replica: Endpoint) -> Evidence:
        """Promote it, as failover tools do, and return the evidence that it accepts writes.

        Raises `stallbench.errors.NotCarriedOutError` or one of the driver's errors.
        """
