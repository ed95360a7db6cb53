"""A transaction that has written one row and then idles: the longrunner of the article of 2015, and a common mistake in an interactive console."""

from __future__ import annotations

from psycopg.sql import SQL, Identifier

from longrunners.longrunner import LongrunnerOptions
from longrunners.postgres_longrunner import Connection
from longrunners.transaction import TransactionLongrunner


class IdleWriter(TransactionLongrunner[LongrunnerOptions]):
    """Holds the horizon by its transaction id."""

    kind = "idle_writer"
    summary = "writes one row to a separate table and idles in the transaction"
    source = "the longrunner of 'Postgres job queues and failure by MVCC' (2015)"

    def open_transaction(self, connection: Connection) -> None:
        """Write to a separate table, not to the queue; the table is created before, outside the transaction."""
        table = Identifier(self.object_name)
        connection.execute(SQL("CREATE TABLE IF NOT EXISTS {} (written_at timestamptz NOT NULL)").format(table))
        connection.execute("BEGIN")
        connection.execute(SQL("INSERT INTO {} VALUES (now())").format(table))

    def remove(self, connection: Connection) -> list[str]:
        """Drop the table."""
        return drop_table(connection, self.object_name)


def drop_table(connection: Connection, name: str) -> list[str]:
    """Drop a longrunner's table if it exists; return a description of it."""
    if connection.execute("SELECT pg_catalog.to_regclass(%s)", (name,)).fetchone() == (None,):
        return []
    connection.execute(SQL("DROP TABLE IF EXISTS {}").format(Identifier(name)))
    return [f"table {name}"]
