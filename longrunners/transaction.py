"""Base of the longrunners that are open, idle transactions, usually one. They check the transactions without using them."""

from __future__ import annotations

import select
from abc import abstractmethod
from collections.abc import Sequence

import psycopg
from psycopg.errors import Diagnostic

from longrunners.longrunner import LostError, OptionsT
from longrunners.postgres_longrunner import Connection, PostgresLongrunner, describe
from stallbench.processes.role import Stop
from stallbench.records.injections import Evidence

_POLL_S = 0.2


class TransactionLongrunner(PostgresLongrunner[OptionsT]):
    """Holds the horizon by open, idle transactions, each in a session of its own."""

    _connections: Sequence[Connection] = ()
    _last_notice: str = ""

    @property
    def sessions(self) -> int:
        """How many transactions it keeps open."""
        return 1

    @abstractmethod
    def open_transaction(self, connection: Connection) -> None:
        """Begin a transaction and do in it what makes it hold the horizon."""

    def hold(self, stop: Stop) -> Evidence:
        """Open the transactions."""
        self._connections = [self.connect() for _ in range(self.sessions)]
        for connection in self._connections:
            connection.add_notice_handler(self._remember)
            self.open_transaction(connection)
        return {
            "kind": "backend",
            "pid": self._connections[0].info.backend_pid,
            "application": self.application_name,
        }

    def keep(self, stop: Stop) -> None:
        """Check the connections until asked to stop."""
        while not stop.wait(_POLL_S):
            self._raise_if_ended()

    def release(self) -> None:
        """Roll the transactions back."""
        self._raise_if_ended()
        for connection in self._connections:
            connection.execute("ROLLBACK")
        self.remove(self._connections[0])
        for connection in self._connections:
            connection.close()

    def _raise_if_ended(self) -> None:
        """Raise `LostError` with the server's message if it has ended a session.

        It only reads the socket: a query would reset the idle time that ``idle_in_transaction_session_timeout`` counts. The server sends the
        reason before it closes the connection.
        """
        for connection in self._connections:
            pgconn = connection.pgconn
            while select.select([pgconn.socket], [], [], 0)[0]:
                try:
                    pgconn.consume_input()
                except psycopg.OperationalError as error:
                    raise LostError(self._last_notice or describe(error)) from error
                finally:
                    pgconn.is_busy()  # parses what was read, so that `_remember` is called

    def _remember(self, notice: Diagnostic) -> None:
        self._last_notice = f"{notice.sqlstate}: {notice.message_primary}"
