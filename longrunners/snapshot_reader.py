"""A REPEATABLE READ transaction that has read once and then idles: a report, a backup, an ORM's session left open."""

from __future__ import annotations

from longrunners.longrunner import LongrunnerOptions
from longrunners.postgres_longrunner import Connection
from longrunners.transaction import TransactionLongrunner


class SnapshotReader(TransactionLongrunner[LongrunnerOptions]):
    """Holds the horizon by its snapshot, without a transaction id."""

    kind = "snapshot_reader"
    summary = "reads once under REPEATABLE READ and idles in the transaction"
    source = "PostgreSQL's documentation of routine vacuuming; pg_dump works like this"

    def open_transaction(self, connection: Connection) -> None:
        """Take the snapshot: BEGIN alone takes none."""
        connection.execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
        connection.execute("SELECT pg_catalog.count(*) FROM pg_catalog.pg_class")
