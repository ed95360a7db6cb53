"""Longrunners on InnoDB that are one open, idle transaction: what they share, and how they watch it without touching it."""

from __future__ import annotations

import select
import socket
from abc import abstractmethod
from typing import Any

import pymysql

from longrunners.longrunner import Longrunner, LongrunnerOptions, LostError
from stallbench.engines import driver_of
from stallbench.engines.mysql import LONGEST_USER
from stallbench.processes.role import Stop

_LOOK_EVERY_S = 0.2
_SESSIONS = "SELECT id FROM information_schema.processlist WHERE user = %s AND id <> connection_id()"
_NO_SUCH_THREAD = 1094


class InnoDBTransaction(Longrunner[LongrunnerOptions]):
    """Holds by one open transaction on one connection, in which it is idle."""

    engines = frozenset({"mariadb", "mysql"})
    _connection: pymysql.Connection[Any]

    @abstractmethod
    def open_transaction(self, connection: pymysql.Connection[Any]) -> None:
        """Begin the transaction and do in it what it is for."""

    def hold(self, stop: Stop) -> dict[str, Any]:
        """Open the transaction."""
        self._connection = self._connect(f"longrunner:{self.document.name}")
        thread = _thread_id(self._connection)
        self.open_transaction(self._connection)
        return {"kind": "backend", "pid": thread, "application": self._user}

    def keep(self, stop: Stop) -> None:
        """Watch the connection."""
        while not stop.wait(_LOOK_EVERY_S):
            self._raise_if_ended()

    def let_go(self) -> None:
        """Roll back."""
        self._raise_if_ended()
        self._connection.rollback()
        self.remove(self._connection)
        self._connection.close()

    def remove(self, connection: pymysql.Connection[Any]) -> list[str]:
        """Remove what outlives the longrunner's connections, if it is there; returns what that was, in words."""
        return []

    def release(self) -> list[str]:
        """Remove what a killed longrunner of this name left: its session, if its proxy keeps it open, and its table."""
        connection = self._connect(f"release:{self.document.name}")
        try:
            ended = [f"session {session}" for session in self._find_sessions(connection) if _kill(connection, session)]
            return [*ended, *self.remove(connection)]
        finally:
            connection.close()

    def _find_sessions(self, connection: pymysql.Connection[Any]) -> list[int]:
        """Find those of the longrunner's name; where it came under a user's name, they cannot be told from that user's others."""
        if self.document.endpoint.user:
            return []
        with connection.cursor() as cursor:
            cursor.execute(_SESSIONS, (self._user,))
            return [int(row[0]) for row in cursor.fetchall()]

    @property
    def _user(self) -> str:
        """The name of the user under which the server knows its sessions."""
        return self.document.endpoint.user or f"longrunner:{self.document.name}"[:LONGEST_USER]

    def _connect(self, name: str) -> pymysql.Connection[Any]:
        connection: pymysql.Connection[Any] = driver_of(self.document.endpoint.engine).connect(self.document.endpoint, name)
        return connection

    def _raise_if_ended(self) -> None:
        """Raise `LostError` if the server has ended the session: by looking only, for a statement would end its idleness."""
        sock: socket.socket = self._connection._sock  # type: ignore[attr-defined]
        if select.select([sock], [], [], 0)[0]:
            # Nothing was asked: what comes is the end, with MySQL's words before it, or without MariaDB's.
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
