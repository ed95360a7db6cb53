"""Makes the file of a SQLite database; there is no server, no network, and so no proxy."""

from __future__ import annotations

import sqlite3
from pathlib import Path

from stallbench.errors import NotCarriedOutError
from stallbench.processes.process import Process
from stallbench.records.endpoint import Endpoint
from stallbench.servers.starter import Starter


class SQLiteFile:
    """What stands for a server: the file."""

    name = "primary"
    process: Process | None = None
    version = sqlite3.sqlite_version

    def __init__(self, path: Path) -> None:
        """Make an empty database in WAL mode, in which readers do not wait for the writer."""
        self.path = path
        connection = sqlite3.connect(path)
        (mode,) = connection.execute("PRAGMA journal_mode = WAL").fetchone()
        connection.close()
        self.settings_in_force: dict[str, str] = {"journal_mode": str(mode), "synchronous": "NORMAL"}

    @property
    def endpoint(self) -> Endpoint:
        """The path, in the place of a database's name."""
        return Endpoint(engine="sqlite", host="", port=0, database=str(self.path), user="")

    @property
    def log(self) -> Path | None:
        """None: it logs nothing."""
        return None

    def stop(self) -> None:
        """Do nothing: the file goes with the run's folder."""

    def kill(self) -> None:
        """Raise `NotCarriedOutError`: there is no server."""
        raise NotCarriedOutError("SQLite is a library: there is no server to kill")

    def start_again(self) -> None:
        """Raise `NotCarriedOutError`: there is no server."""
        raise NotCarriedOutError("SQLite is a library: there is no server to start")

    def check(self) -> None:
        """Do nothing: there is nobody who could have died."""


class SQLiteStarter(Starter):
    """A file of the run's own."""

    engines = frozenset({"sqlite"})
    has_network = False

    def primary(self) -> SQLiteFile:
        """Make the file."""
        return SQLiteFile(self.context.scratch / "queue.sqlite")
