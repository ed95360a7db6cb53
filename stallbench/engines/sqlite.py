"""SQLite, through Python's own library: a file, and no server."""

from __future__ import annotations

import sqlite3

from stallbench.engines.driver import Driver
from stallbench.records.endpoint import Endpoint

BUSY_TIMEOUT_S = 5.0
"""How long a statement waits for another's transaction before it raises ``SQLITE_BUSY``; Python's own default."""


class SQLiteDriver(Driver):
    """Connections to one file, in autocommit; transactions begin and end where the queue says so."""

    errors = (sqlite3.Error,)
    yields_to_greenlets = False

    def connect(self, endpoint: Endpoint, name: str) -> sqlite3.Connection:
        """Open the file, which exists; raises `sqlite3.OperationalError` if it cannot be read."""
        connection = sqlite3.connect(
            f"file:{endpoint.database}?mode=rw", uri=True, timeout=BUSY_TIMEOUT_S, isolation_level=None, check_same_thread=False
        )
        # What a web application's framework chooses for WAL mode: a commit waits for the checkpoint's sync only.
        connection.execute("PRAGMA synchronous = NORMAL")
        return connection

    def is_closed(self, connection: sqlite3.Connection) -> bool:
        """Never by itself: there is nobody at the other end."""
        return False

    def abort(self, connection: sqlite3.Connection) -> None:
        """Interrupt the statement that runs."""
        connection.interrupt()

    def console(self, endpoint: Endpoint) -> str:
        """Return a call of SQLite's shell."""
        return f"sqlite3 {endpoint.database}"

    def code(self, error: Exception) -> str:
        """Return SQLite's own name of the error, like ``SQLITE_BUSY``."""
        return getattr(error, "sqlite_errorname", None) or type(error).__name__


DRIVER = SQLiteDriver()
