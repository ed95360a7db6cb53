"""Base of longrunners whose holder needs no session: it outlives connections, restarts and the longrunner itself."""

from __future__ import annotations

from abc import abstractmethod

import psycopg

from longrunners.longrunner import LostError, OptionsT
from longrunners.postgres_longrunner import Connection, PostgresLongrunner
from stallbench.engines.reconnection import reconnect
from stallbench.processes.role import CannotContinueError, Stop
from stallbench.records.injections import Evidence

_POLL_S = 0.5


class LeftoverLongrunner(PostgresLongrunner[OptionsT]):
    """Creates the object, then only checks that it still exists, on a connection that holds nothing."""

    _connection: Connection

    @abstractmethod
    def make(self, connection: Connection) -> Evidence:
        """Create the object and return the holder; after an error, nothing of it is left."""

    @abstractmethod
    def find_loss(self, connection: Connection) -> str | None:
        """Return why it no longer holds, or none if it does."""

    def hold(self, stop: Stop) -> Evidence:
        """Create the object."""
        self._connection = self.connect()
        try:
            return self.make(self._connection)
        except psycopg.errors.DuplicateObject as error:
            raise CannotContinueError(
                f"{error.diag.message_primary}: another longrunner of this name uses it, or a killed one left it; "
                'the same document with "release": true removes it'
            ) from error

    def keep(self, stop: Stop) -> None:
        """Check twice a second; wait for a server that is unavailable, since the object survives that."""
        while not stop.wait(_POLL_S):
            try:
                loss = self.find_loss(self._connection)
            except psycopg.OperationalError:
                self._connection.close()
                self._connection = reconnect(self.connect, stop)
                continue
            if loss:
                raise LostError(loss)

    def release(self) -> None:
        """Remove the object."""
        with self._connection as connection:
            loss = self.find_loss(connection)
            self.remove(connection)
        if loss:
            raise LostError(loss)
