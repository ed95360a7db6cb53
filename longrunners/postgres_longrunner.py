"""Base of all longrunners on PostgreSQL: their connections, and the end of their sessions after a kill."""

from __future__ import annotations

from typing import Any

import psycopg

from longrunners.longrunner import Longrunner, OptionsT
from stallbench.engines.postgres.driver import connect

Connection = psycopg.Connection[tuple[Any, ...]]

_TERMINATE = """
SELECT pid, pg_catalog.pg_terminate_backend(pid, 5000)
FROM pg_catalog.pg_stat_activity WHERE application_name = %s AND datname = pg_catalog.current_database() AND pid <> pg_catalog.pg_backend_pid()
"""


class PostgresLongrunner(Longrunner[OptionsT]):
    """Holds the horizon of a PostgreSQL server."""

    engines = frozenset({"postgres"})

    def connect(self) -> Connection:
        """Open a connection under the longrunner's name."""
        return connect(self.document.endpoint, f"longrunner:{self.document.name}")

    def remove(self, connection: Connection) -> list[str]:
        """Remove what outlives the longrunner's connections, if it exists; return a description of each part."""
        return []

    def clean_up(self) -> list[str]:
        """Remove what a killed longrunner of this name left.

        A session outlives its client if it was in a query, or if the proxy keeps it open. It is ended, too.
        """
        with connect(self.document.endpoint, f"release:{self.document.name}") as connection:
            ended = connection.execute(_TERMINATE, (self.application_name,)).fetchall()
            return [*(f"session {pid}" for pid, _ in ended), *self.remove(connection)]


def describe(error: psycopg.Error) -> str:
    """Return an error of the server in one line, its SQLSTATE first."""
    message = error.diag.message_primary or str(error).strip().splitlines()[0]
    return f"{error.sqlstate or 'no SQLSTATE'}: {message}"
