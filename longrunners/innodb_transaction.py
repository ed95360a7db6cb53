"""Base of the longrunners on InnoDB that are one open, idle transaction. They check the transaction without using it."""

from __future__ import annotations

import select
import socket
from abc import abstractmethod
from typing import Any

import pymysql

from longrunners.longrunner import Longrunner, LongrunnerOptions, LostError
from stallbench.engines import driver_of
from stallbench.engines.innodb.driver import LONGEST_USER
from stallbench.processes.role import Stop
from stallbench.records.injections import Evidence

_POLL_S = 0.2
_SESSIONS = "SELECT id FROM information_schema.processlist WHERE user = %s AND id <> connection_id()"
_NO_SUCH_THREAD = 1094


class InnoDBTransaction(Longrunner[LongrunnerOptions]):
    """Holds the horizon by one open, idle transaction."""

    engines = frozenset({"mariadb", "mysql"})
    _connection: pymysql.Connection[Any]

    @abstractmethod
    def open_transaction(self, connection: pymysql.Connection[Any]) -> None:
        """Begin the transaction and do in it what makes it hold the horizon."""

    def hold(self, stop: Stop) -> Evidence:
        """Open the transaction."""
        self._connection = self._connect(f"longrunner:{self.document.name}")
        thread = _thread_id(self._connection)
        self.open_transaction(self._connection)
        return {"kind": "backend", "pid": thread, "application": self._user}

    def keep(self, stop: Stop) -> None:
        """Check the connection until asked to stop."""
        while not stop.wait(_POLL_S):
            self._raise_if_ended()

    def release(self) -> None:
        """Roll the transaction back."""
        self._raise_if_ended()
        self._connection.rollback()
        self.remove(self._connection)
        self._connection.close()

    def remove(self, connection: pymysql.Connection[Any]) -> list[str]:
        """Remove what outlives the longrunner's connections, if it exists; return a description of each part."""
        return []

    def clean_up(self) -> list[str]:
        """Remove what a killed longrunner of this name left: its session, if the proxy keeps it open, and its table."""
        connection = self._connect(f"release:{self.document.name}")
        try:
            ended = [f"session {session}" for session in self._find_sessions(connection) if _kill(connection, session)]
            return [*ended, *self.remove(connection)]
        finally:
            connection.close()

    def _find_sessions(self, connection: pymysql.Connection[Any]) -> list[int]:
        """Find the sessions of this longrunner. None if it connected as a given user, whose other sessions look the same."""
        if self.document.endpoint.user:
            return []
        with connection.cursor() as cursor:
            cursor.execute(_SESSIONS, (self._user,))
            return [int(row[0]) for row in cursor.fetchall()]

    @property
    def _user(self) -> str:
        """The user name of its sessions on the server."""
        return self.document.endpoint.user or f"longrunner:{self.document.name}"[:LONGEST_USER]

    def _connect(self, name: str) -> pymysql.Connection[Any]:
        connection: pymysql.Connection[Any] = driver_of(self.document.endpoint.engine).connect(self.document.endpoint, name)
        return connection

    def _raise_if_ended(self) -> None:
        """Raise `LostError` if the server has ended the session. It only reads the socket: a statement would make the session active."""
        sock: socket.socket = self._connection._sock  # type: ignore[attr-defined]
        if select.select([sock], [], [], 0)[0]:
            # No statement was sent, so anything that arrives means the end of the session: MySQL sends a message before it, MariaDB does not.
            raise LostError("the server has ended the session")


def _thread_id(connection: pymysql.Connection[Any]) -> int:
    with connection.cursor() as cursor:
        cursor.execute("SELECT connection_id()")
        (thread,) = cursor.fetchone() or (0,)
    return int(thread)


def _kill(connection: pymysql.Connection[Any], session: int) -> bool:
    try:
        with connection.cursor() as cursor:
            cursor.execute(f"KILL {session:d}")
    except pymysql.OperationalError as error:
        if error.args[0] != _NO_SUCH_THREAD:
            raise
        return False
    return True
