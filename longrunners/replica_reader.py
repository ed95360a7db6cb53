"""A snapshot on a follower: with hot_standby_feedback it holds the horizon of the primary, where nobody sees the session.

Without feedback the primary vacuums on, and the follower ends the session once it may not delay the replay any longer
(``max_standby_streaming_delay``).
"""

from __future__ import annotations

from longrunners.longrunner import LongrunnerOptions
from longrunners.postgres_longrunner import Connection
from longrunners.transaction import TransactionLongrunner


class ReplicaReader(TransactionLongrunner[LongrunnerOptions]):
    """Holds its replica's snapshot; whether that reaches the primary is the replica's setting."""

    kind = "replica_reader"
    summary = "reads once under REPEATABLE READ on a replica and idles in the transaction"
    source = "'Postgres job queues and failure by MVCC' (2015): the transaction was on a follower"
    roles = ("replica",)

    def open_transaction(self, connection: Connection) -> None:
        """Take the snapshot: BEGIN alone takes none."""
        connection.execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
        connection.execute("SELECT count(*) FROM pg_class")
