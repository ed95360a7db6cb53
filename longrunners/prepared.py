"""An abandoned prepared transaction: it belongs to no session, survives restarts, and holds the horizon until it is rolled back."""

from __future__ import annotations

from collections.abc import Mapping

from psycopg.sql import SQL, Identifier, Literal

from longrunners.idle_writer import drop_table
from longrunners.longrunner import LongrunnerOptions
from longrunners.postgres_longrunner import Connection
from longrunners.sessionless import LeftoverLongrunner
from stallbench.processes.role import CannotContinueError
from stallbench.records.injections import Evidence

_NEEDED = "max_prepared_transactions of at least 1 in database.settings"


class Prepared(LeftoverLongrunner[LongrunnerOptions]):
    """Prepares a transaction and never finishes it."""

    kind = "prepared"
    summary = "prepares a transaction, as a two-phase commit does, and never finishes it"
    source = "PostgreSQL's documentation of PREPARE TRANSACTION warns of it"

    @classmethod
    def find_missing_setting(cls, options: LongrunnerOptions, settings: Mapping[str, object]) -> str | None:
        """Check max_prepared_transactions: by default PostgreSQL allows no prepared transaction."""
        return _NEEDED if str(settings.get("max_prepared_transactions", 0)) == "0" else None

    def make(self, connection: Connection) -> Evidence:
        """Write a row and prepare the transaction."""
        if connection.execute("SHOW max_prepared_transactions").fetchone() == ("0",):
            raise CannotContinueError(
                f"max_prepared_transactions is 0 on {self.document.on}, so nothing can be prepared; expected {_NEEDED}"
            )
        table = Identifier(self.object_name)
        connection.execute(SQL("CREATE TABLE IF NOT EXISTS {} (written_at timestamptz NOT NULL)").format(table))
        connection.execute("BEGIN")
        connection.execute(SQL("INSERT INTO {} VALUES (now())").format(table))
        connection.execute(SQL("PREPARE TRANSACTION {}").format(Literal(self.object_name)))
        return {"kind": "prepared", "key": self.object_name}

    def find_loss(self, connection: Connection) -> str | None:
        """Check that the prepared transaction still exists."""
        return None if self._exists(connection) else f"prepared transaction {self.object_name} was committed or rolled back"

    def remove(self, connection: Connection) -> list[str]:
        """Roll it back, and drop the table."""
        removed = []
        if self._exists(connection):
            connection.execute(SQL("ROLLBACK PREPARED {}").format(Literal(self.object_name)))
            removed.append(f"prepared transaction {self.object_name}")
        return [*removed, *drop_table(connection, self.object_name)]

    def _exists(self, connection: Connection) -> bool:
        query = "SELECT 1 FROM pg_catalog.pg_prepared_xacts WHERE gid = %s AND database = pg_catalog.current_database()"
        return connection.execute(query, (self.object_name,)).fetchone() is not None
