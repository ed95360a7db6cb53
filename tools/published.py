"""What the generators of tables read: the published results of ``evidence/``, and how a table refers to them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Protocol

from stallbench.evidence.document import EarlierTable, RunDocument
from stallbench.evidence.stored_run import StoredRun
from stallbench.studies.comparison.record import ComparisonRecord

LINK = "../evidence"
"""The folder, from a page in docs/."""


class Published(Protocol):
    """Published results; `stallbench.evidence.collection.Collection` reads them from a folder."""

    def runs(self) -> Iterator[StoredRun]:
        """Yield all runs, the oldest first."""

    def run(self, run_id: str) -> StoredRun:
        """Return one run."""

    def comparisons(self, scenario: str) -> Sequence[ComparisonRecord]:
        """Return the comparisons of a scenario, the oldest first."""

    def earlier(self, table: str) -> EarlierTable | None:
        """Return what an earlier version published in a table."""

    def find_reasons(self, document: RunDocument | ComparisonRecord) -> tuple[str, ...]:
        """Return why a result is stale; empty if it is current."""


def link_study(record: ComparisonRecord) -> str:
    """Return when a comparison began, as a link to its file."""
    return f"[{record.id.partition('-')[0]}]({LINK}/studies/{record.id}.json)"


def link_run(document: RunDocument) -> str:
    """Return when a run began, as a link to its file."""
    return f"[{document.id.partition('-')[0]}]({LINK}/runs/{document.id}.json)"
