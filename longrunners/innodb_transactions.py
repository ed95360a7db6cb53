"""InnoDB's longrunners: a transaction that has written, one that has a read view, and one that has it on a replica.

Only a read view keeps deleted rows in the tables. An open transaction that has only written also lets the history list grow, but deleted rows are
purged. On PostgreSQL the transaction id of such a transaction is enough to keep them.
"""

from __future__ import annotations

from typing import Any

import pymysql

from longrunners.innodb_transaction import InnoDBTransaction


class IdleWriterOnInnoDB(InnoDBTransaction):
    """Lets the history list grow, and keeps no deleted row."""

    kind = "idle_writer"
    summary = "writes one row to a separate table and idles in the transaction"
    source = "the longrunner of 'Postgres job queues and failure by MVCC' (2015), on another engine"

    def open_transaction(self, connection: pymysql.Connection[Any]) -> None:
        """Write to a separate table, not to the queue."""
        with connection.cursor() as cursor:
            cursor.execute(f"CREATE TABLE IF NOT EXISTS {self.object_name} (written_at timestamp NOT NULL)")
            cursor.execute("BEGIN")
            cursor.execute(f"INSERT INTO {self.object_name} VALUES (now())")

    def remove(self, connection: pymysql.Connection[Any]) -> list[str]:
        """Drop the table."""
        with connection.cursor() as cursor:
            cursor.execute("SHOW TABLES LIKE %s", (self.object_name.replace("_", "\\_"),))
            if cursor.fetchone() is None:
                return []
            cursor.execute(f"DROP TABLE IF EXISTS {self.object_name}")
        return [f"table {self.object_name}"]


class SnapshotReaderOnInnoDB(InnoDBTransaction):
    """Holds back purge by its read view."""

    kind = "snapshot_reader"
    summary = "takes a read view under REPEATABLE READ and idles in the transaction"
    source = "MySQL's documentation of purge; mysqldump --single-transaction works like this"

    def open_transaction(self, connection: pymysql.Connection[Any]) -> None:
        """Open the read view: BEGIN alone opens none."""
        open_view(connection)


class ReplicaReaderOnInnoDB(InnoDBTransaction):
    """Holds back purge on its replica only."""

    kind = "replica_reader"
    summary = "takes a read view on a replica and idles in the transaction"
    source = "'Postgres job queues and failure by MVCC' (2015): the transaction was on a follower"
    roles = ("replica",)

    def open_transaction(self, connection: pymysql.Connection[Any]) -> None:
        """Open the read view: BEGIN alone opens none."""
        open_view(connection)


def open_view(connection: pymysql.Connection[Any]) -> None:
    """Begin a transaction that sees the database as it is now."""
    with connection.cursor() as cursor:
        cursor.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        cursor.execute("START TRANSACTION WITH CONSISTENT SNAPSHOT, READ ONLY")
