"""A transaction that has written one row and then idles: the longrunner of seed 002, and of every forgotten console."""

from __future__ import annotations

from longrunners.longrunner import Connection, LongrunnerOptions, TransactionLongrunner


class IdleWriter(TransactionLongrunner[LongrunnerOptions]):
    """Holds the horizon by its transaction id."""

    kind = "idle_writer"
    summary = "writes one row to a table of its own and idles in the transaction"
    source = "the longrunner of 'Postgres job queues and failure by MVCC' (2015)"

    def open_transaction(self, connection: Connection) -> None:
        """Write elsewhere than to the queue; the table is made before, so that it is not part of what is held."""
        connection.execute("CREATE TABLE IF NOT EXISTS stallbench_idle_writer (written_at timestamptz NOT NULL)")
        connection.execute("BEGIN")
        connection.execute("INSERT INTO stallbench_idle_writer VALUES (now())")
