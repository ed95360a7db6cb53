"""Do sessions look up subtransactions and MultiXacts? Each look-up takes a lock that all sessions share, and may read a page from disk.

PostgreSQL keeps both in small buffers (SLRU): 32 pages of subtransactions, 8 and 16 of MultiXacts before version 17, which has settings for them.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from stallbench.engines.collectors.collector import ServerCollector, samples_of
from stallbench.engines.collectors.document import WatchedServer
from stallbench.engines.postgres.driver import Connection
from stallbench.records.samples import Sample

# Version 17 renamed the buffers, from Subtrans to subtransaction, and from MultiXactMember to multixact_member.
_LOOKUPS = """
SELECT
  pg_catalog.sum(blks_hit + blks_read) FILTER (WHERE pg_catalog.lower(name) IN ('subtrans', 'subtransaction'))::bigint,
  pg_catalog.sum(blks_hit + blks_read) FILTER (WHERE pg_catalog.lower(pg_catalog.replace(name, '_', '')) IN ('multixactmember', 'multixactoffset'))::bigint,
  pg_catalog.sum(blks_read)
    FILTER (WHERE pg_catalog.lower(pg_catalog.replace(name, '_', '')) IN ('subtrans', 'subtransaction', 'multixactmember', 'multixactoffset'))::bigint
FROM pg_catalog.pg_stat_slru
"""


class Lookups(NamedTuple):
    """Since the server's statistics were reset."""

    subtransactions: int
    multixacts: int
    reads: int
    """Pages that were read from disk for both."""


def read_lookups(connection: Any) -> Lookups:
    """Return how often sessions have looked up each kind, in a buffer or not."""
    row = connection.execute(_LOOKUPS).fetchone()
    assert row is not None
    return Lookups(*row)


class SlruCollector(ServerCollector):
    """Reads the primary's statistics of the two kinds of buffers, since they were reset."""

    name = "slru"

    def sample_server(self, server: WatchedServer, connection: Connection) -> Iterator[Sample]:
        """Yield the look-ups of each kind, found in a buffer or not, and the pages that were read from disk for both."""
        names = ("subtransaction_lookups", "multixact_lookups", "slru_reads")
        yield from samples_of(server.name, "server", dict(zip(names, read_lookups(connection), strict=True)))
