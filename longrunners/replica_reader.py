"""A snapshot on a replica: with hot_standby_feedback it holds the horizon of the primary, although the primary does not show the session.

Without feedback, vacuum on the primary continues, and the replica ends the session when it has delayed replay for too long
(``max_standby_streaming_delay``).
"""

from __future__ import annotations

from longrunners.longrunner import LongrunnerOptions
from longrunners.postgres_longrunner import Connection
from longrunners.transaction import TransactionLongrunner


class ReplicaReader(TransactionLongrunner[LongrunnerOptions]):
    """Holds a snapshot on its replica; the replica's settings decide whether that holds back the primary."""

    kind = "replica_reader"
    summary = "reads once under REPEATABLE READ on a replica and idles in the transaction"
    source = "'Postgres job queues and failure by MVCC' (2015): the transaction was on a follower"
    roles = ("replica",)

    def open_transaction(self, connection: Connection) -> None:
        """Take the snapshot: BEGIN alone takes none."""
        connection.execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
        connection.execute("SELECT pg_catalog.count(*) FROM pg_catalog.pg_class")
