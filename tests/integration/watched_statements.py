"""A collector of statements that watches one queue on one server."""

from __future__ import annotations

from pathlib import Path
from typing import Any, TypeVar

from stallbench.engines.collectors.document import CollectorsDocument, WatchedQueue, WatchedServer
from stallbench.engines.collectors.statement_counts import StatementCountsCollector
from stallbench.queues import find_queue
from stallbench.records.endpoint import Endpoint

CollectorT = TypeVar("CollectorT", bound=StatementCountsCollector)


def watch(collector: type[CollectorT], endpoint: Endpoint, kind: str, folder: Path) -> CollectorT:
    """Make the collector; it writes the texts of statements into ``folder``."""
    queue = find_queue(kind)
    watched = WatchedQueue(kind=kind, tables=queue.tables, indexes=queue.indexes, claim_pattern=queue.claim_pattern)
    primary = WatchedServer(name="primary", role="primary", endpoint=endpoint)
    return collector(CollectorsDocument(name="collectors", run_folder=folder, interval_s=1, servers=(primary,), queue=watched))


def sample(collector: StatementCountsCollector) -> dict[tuple[str, str], Any]:
    """Take one sample; returns the values by subject and metric."""
    return {(sample.subject, sample.metric): sample.value for sample in collector.sample()}
