"""Creates the file of a SQLite database. There is no server, no network, and no proxy."""

from __future__ import annotations

import sqlite3
from pathlib import Path

from stallbench.engines.starter import Starter
from stallbench.errors import NotCarriedOutError
from stallbench.processes.process import Process
from stallbench.records.endpoint import Endpoint


class SQLiteFile:
    """The `ServerControl` of a SQLite database, which is a file."""

    name = "primary"
    process: Process | None = None
    version = sqlite3.sqlite_version

    def __init__(self, path: Path) -> None:
        """Create an empty database in WAL mode, in which readers do not wait for the writer."""
        self.path = path
        connection = sqlite3.connect(path)
        (mode,) = connection.execute("PRAGMA journal_mode = WAL").fetchone()
        connection.close()
        self.settings_in_force: dict[str, str] = {"journal_mode": str(mode), "synchronous": "NORMAL"}

    @property
    def endpoint(self) -> Endpoint:
        """The path of the file as the name of the database."""
        return Endpoint(engine="sqlite", host="", port=0, database=str(self.path), user="")

    @property
    def log(self) -> Path | None:
        """None: it has no log."""
        return None

    def stop(self) -> None:
        """Do nothing: the file is removed with the run's scratch folder."""

    def kill(self) -> None:
        """Raise `NotCarriedOutError`: there is no server."""
        raise NotCarriedOutError("SQLite is a library: there is no server to kill")

    def start_again(self) -> None:
        """Raise `NotCarriedOutError`: there is no server."""
        raise NotCarriedOutError("SQLite is a library: there is no server to start")

    def check(self) -> None:
        """Do nothing: there is no process."""


class SQLiteStarter(Starter):
    """A file for each run."""

    has_network = False

    def primary(self) -> SQLiteFile:
        """Create the file."""
        return SQLiteFile(self.context.scratch / "queue.sqlite")
