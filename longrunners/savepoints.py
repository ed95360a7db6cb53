"""An import in one transaction, with a savepoint for each record: a subtransaction for each record.

A snapshot lists up to 64 subtransactions of each open transaction. If one has more, the snapshot of every session is incomplete: for each row
version of a transaction that began later than the oldest open one, the session looks up in ``pg_subtrans`` whether it belongs to a subtransaction.
"""

from __future__ import annotations

import time

import psycopg
from psycopg.sql import SQL, Identifier, Literal
from pydantic import Field

from longrunners.idle_writer import drop_table
from longrunners.longrunner import LongrunnerOptions, LostError
from longrunners.postgres_longrunner import Connection, describe
from longrunners.transaction import TransactionLongrunner
from stallbench.processes.role import Stop

_EVERY_S = 0.1
# A block with an exception handler is a subtransaction; as after RELEASE SAVEPOINT, its transaction id remains until the transaction ends.
_IMPORT = """
DO $$
BEGIN
  FOR record IN 1 .. {count} LOOP
    BEGIN
      INSERT INTO {table} VALUES (pg_catalog.clock_timestamp());
    EXCEPTION WHEN unique_violation THEN
      NULL;
    END;
  END LOOP;
END $$
"""


class SavepointsOptions(LongrunnerOptions):
    """Options of `Savepoints`."""

    per_s: int = Field(default=100, ge=1, le=100_000, description="records per second, each with a savepoint")
    at_most: int | None = Field(
        default=None, ge=1, description="largest number of savepoints; after that the transaction is idle; none: no limit"
    )


class Savepoints(TransactionLongrunner[SavepointsOptions]):
    """Holds the horizon by its transaction id, and makes every snapshot incomplete as soon as it has more than 64 subtransactions."""

    kind = "savepoints"
    summary = "imports records in one transaction, with a savepoint for each"
    source = "PostgreSQL's documentation of subtransactions; odoo pull request 71395"
    options_type = SavepointsOptions

    _imported = 0

    def open_transaction(self, connection: Connection) -> None:
        """Begin, and import the first record; the table is created before, outside the transaction."""
        connection.execute(
            SQL("CREATE TABLE IF NOT EXISTS {} (written_at timestamptz NOT NULL)").format(Identifier(self.object_name))
        )
        connection.execute("BEGIN")
        self._import(connection, 1)

    def keep(self, stop: Stop) -> None:
        """Import at the intended rate; once all is imported, check the connection."""
        began_s = time.monotonic()
        (connection,) = self._connections
        while not stop.wait(_EVERY_S):
            self._raise_if_ended()
            due = int((time.monotonic() - began_s) * self.options.per_s)
            if self.options.at_most is not None:
                due = min(due, self.options.at_most)
            try:
                self._import(connection, due - self._imported)
            except psycopg.Error as error:
                raise LostError(describe(error)) from error

    def _import(self, connection: Connection, count: int) -> None:
        if count > 0:
            connection.execute(SQL(_IMPORT).format(count=Literal(count), table=Identifier(self.object_name)))
            self._imported += count

    def remove(self, connection: Connection) -> list[str]:
        """Drop the table."""
        return drop_table(connection, self.object_name)
