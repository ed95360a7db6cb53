"""SQLite, through Python's own library: a file without a server."""

from __future__ import annotations

import sqlite3
from pathlib import Path

from stallbench.engines.driver import Driver
from stallbench.records.endpoint import Endpoint

BUSY_TIMEOUT_S = 5.0
"""How long a statement waits for another transaction before it raises ``SQLITE_BUSY``; Python's own default."""


class SQLiteDriver(Driver):
    """Connections to one file, in autocommit; the queue begins and ends transactions."""

    errors = (sqlite3.Error,)
    yields_to_greenlets = False

    def connect(self, endpoint: Endpoint, name: str) -> sqlite3.Connection:
        """Open the existing file; raises `sqlite3.OperationalError` if it cannot be read."""
        connection = sqlite3.connect(
            f"{Path(endpoint.database).absolute().as_uri()}?mode=rw",
            uri=True,
            timeout=BUSY_TIMEOUT_S,
            isolation_level=None,
            check_same_thread=False,
        )
        # The usual choice of web frameworks for WAL mode: only checkpoints wait for the disk, commits do not.
        connection.execute("PRAGMA synchronous = NORMAL")
        return connection

    def is_closed(self, connection: sqlite3.Connection) -> bool:
        """Never: there is no server that could close it."""
        return False

    def abort(self, connection: sqlite3.Connection) -> None:
        """Interrupt the running statement."""
        connection.interrupt()

    def console(self, endpoint: Endpoint) -> str:
        """Return a command with SQLite's shell."""
        return f"sqlite3 {endpoint.database}"

    def code(self, error: Exception) -> str:
        """Return SQLite's own name for the error, like ``SQLITE_BUSY``."""
        return getattr(error, "sqlite_errorname", None) or type(error).__name__

    def make_error(self, code: str, message: str) -> Exception:
        """Return an error whose `code` is ``code``."""
        error = sqlite3.DatabaseError(message)
        error.sqlite_errorname = code
        return error


DRIVER = SQLiteDriver()
