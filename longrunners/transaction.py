"""Base of the longrunners that are one open, idle transaction. They check the transaction without using it."""

from __future__ import annotations

import select
from abc import abstractmethod
from typing import Any

import psycopg
from psycopg.errors import Diagnostic

from longrunners.longrunner import LostError, OptionsT
from longrunners.postgres_longrunner import Connection, PostgresLongrunner, describe
from stallbench.processes.role import Stop

_POLL_S = 0.2


class TransactionLongrunner(PostgresLongrunner[OptionsT]):
    """Holds the horizon by one open, idle transaction."""

    _connection: Connection
    _last_notice: str = ""

    @abstractmethod
    def open_transaction(self, connection: Connection) -> None:
        """Begin the transaction and do in it what makes it hold the horizon."""

    def hold(self, stop: Stop) -> dict[str, Any]:
        """Open the transaction."""
        self._connection = self.connect()
        self._connection.add_notice_handler(self._remember)
        self.open_transaction(self._connection)
        return {
            "kind": "backend",
            "pid": self._connection.info.backend_pid,
            "application": self.application_name,
        }

    def keep(self, stop: Stop) -> None:
        """Check the connection until asked to stop."""
        while not stop.wait(_POLL_S):
            self._raise_if_ended()

    def release(self) -> None:
        """Roll the transaction back."""
        self._raise_if_ended()
        with self._connection as connection:
            connection.execute("ROLLBACK")
            self.remove(connection)

    def _raise_if_ended(self) -> None:
        """Raise `LostError` with the server's message if it has ended the session.

        It only reads the socket: a query would reset the idle time that ``idle_in_transaction_session_timeout`` counts. The server sends the
        reason before it closes the connection.
        """
        pgconn = self._connection.pgconn
        while select.select([pgconn.socket], [], [], 0)[0]:
            try:
                pgconn.consume_input()
            except psycopg.OperationalError as error:
                raise LostError(self._last_notice or describe(error)) from error
            finally:
                pgconn.is_busy()  # parses what was read, so that `_remember` is called

    def _remember(self, notice: Diagnostic) -> None:
        self._last_notice = f"{notice.sqlstate}: {notice.message_primary}"
