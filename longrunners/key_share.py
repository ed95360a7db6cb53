"""Transactions that share the lock of a foreign key on one row: each has inserted a row that refers to it, and is not committed yet.

PostgreSQL stores the transactions that share a row lock as a MultiXact. A further transaction that locks the row reads this MultiXact and writes a new
one, whose members are the transactions that still have the lock and itself.
"""

from __future__ import annotations

from psycopg.sql import SQL, Identifier
from pydantic import Field

from longrunners.idle_writer import drop_table
from longrunners.longrunner import LongrunnerOptions
from longrunners.postgres_longrunner import Connection
from longrunners.transaction import TransactionLongrunner


class KeyShareOptions(LongrunnerOptions):
    """Options of `KeyShare`."""

    sessions: int = Field(default=20, ge=1, le=500, description="transactions that share the lock, each with its own connection")
    table: str | None = Field(
        default=None,
        pattern=r"^[a-z_][a-z0-9_]*(\.[a-z_][a-z0-9_]*)?$",
        description="table whose rows they lock; none: a table that the longrunner creates",
    )


class KeyShare(TransactionLongrunner[KeyShareOptions]):
    """Holds ``FOR KEY SHARE`` on all rows of a table, from several sessions at once."""

    kind = "key_share"
    summary = "locks the rows of a table with FOR KEY SHARE in several transactions, as foreign keys do, and idles in them"
    source = (
        "PostgreSQL's documentation of row-level locks and of MultiXacts; transactions that enqueue a job early and commit late"
    )
    options_type = KeyShareOptions

    @property
    def sessions(self) -> int:
        """As the scenario says."""
        return self.options.sessions

    def open_transaction(self, connection: Connection) -> None:
        """Lock every row of the table; its own table is created first, outside the transaction."""
        if self.options.table is None:
            own = Identifier(self.object_name)
            connection.execute(SQL("CREATE TABLE IF NOT EXISTS {} AS SELECT 1 AS id").format(own))
        connection.execute("BEGIN")
        locked = Identifier(*(self.options.table or self.object_name).split("."))
        connection.execute(SQL("SELECT 1 FROM {} FOR KEY SHARE").format(locked))

    def remove(self, connection: Connection) -> list[str]:
        """Drop its own table."""
        return drop_table(connection, self.object_name)
