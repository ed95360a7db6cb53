"""Longrunners that hold by something that needs no session, and so outlives every connection, restarts, and the
longrunner itself.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

import psycopg

from longrunners.longrunner import LostError, OptionsT
from longrunners.postgres_longrunner import Connection, PostgresLongrunner
from stallbench.processes.reconnection import reconnect
from stallbench.processes.role import CannotGoOnError, Stop

_LOOK_EVERY_S = 0.5


class LeftoverLongrunner(PostgresLongrunner[OptionsT]):
    """Makes the thing, then only looks whether it is still there, on a connection that holds nothing."""

    _connection: Connection

    @abstractmethod
    def make(self, connection: Connection) -> dict[str, Any]:
        """Make the thing and return the holder; on an error, nothing is left of it."""

    @abstractmethod
    def find_loss(self, connection: Connection) -> str | None:
        """Say why it holds no longer; none while it does."""

    def hold(self, stop: Stop) -> dict[str, Any]:
        """Make the thing."""
        self._connection = self.connect()
        try:
            return self.make(self._connection)
        except psycopg.errors.DuplicateObject as error:
            raise CannotGoOnError(
                f"{error.diag.message_primary}: another longrunner of this name holds it, or one left it when it was killed; "
                'the same document with "release": true removes it'
            ) from error

    def keep(self, stop: Stop) -> None:
        """Look twice a second; a server that is away for a while is waited for, since the thing outlives that."""
        while not stop.wait(_LOOK_EVERY_S):
            try:
                loss = self.find_loss(self._connection)
            except psycopg.OperationalError:
                self._connection.close()
                self._connection = reconnect(self.connect, stop)
                continue
            if loss:
                raise LostError(loss)

    def let_go(self) -> None:
        """Remove the thing."""
        with self._connection as connection:
            loss = self.find_loss(connection)
            self.remove(connection)
        if loss:
            raise LostError(loss)
