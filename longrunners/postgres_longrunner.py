"""What every longrunner on PostgreSQL shares: its connections, and how its sessions are ended when it was killed."""

from __future__ import annotations

from typing import Any

import psycopg

from longrunners.longrunner import Longrunner, OptionsT
from stallbench.engines.postgres import connect

Connection = psycopg.Connection[tuple[Any, ...]]

_TERMINATE = """
SELECT pid, pg_terminate_backend(pid, 5000)
FROM pg_stat_activity WHERE application_name = %s AND pid <> pg_backend_pid()
"""


class PostgresLongrunner(Longrunner[OptionsT]):
    """Holds the horizon of a PostgreSQL server."""

    engines = frozenset({"postgres"})

    def connect(self) -> Connection:
        """Open a connection under the longrunner's name."""
        return connect(self.document.endpoint, f"longrunner:{self.document.name}")

    def remove(self, connection: Connection) -> list[str]:
        """Remove what outlives the longrunner's connections, if it is there; returns what that was, in words."""
        return []

    def release(self) -> list[str]:
        """Remove what a killed longrunner of this name left.

        A session that was in a query, or whose proxy keeps it open, outlives its client; so they are ended too.
        """
        with connect(self.document.endpoint, f"release:{self.document.name}") as connection:
            ended = connection.execute(_TERMINATE, (self.application_name,)).fetchall()
            return [*(f"session {pid}" for pid, _ in ended), *self.remove(connection)]


def describe(error: psycopg.Error) -> str:
    """Return an error of the server in one line, its SQLSTATE first."""
    words = error.diag.message_primary or str(error).strip().splitlines()[0]
    return f"{error.sqlstate or 'no SQLSTATE'}: {words}"
