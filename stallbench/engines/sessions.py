"""What faults and maintenance ask a server about the sessions of its clients, and how they end them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, NamedTuple

from pydantic import SecretStr

from stallbench.records.endpoint import Endpoint


class ClientSession(NamedTuple):
    """A session of one of the bench's processes."""

    id: int
    """The server's identifier."""
    client: str
    """The name of the process."""


class OldTransaction(NamedTuple):
    """A session with an open transaction."""

    id: int
    name: str
    """By which the server knows the session's client."""
    state: str
    age_s: float
    """For how long the transaction has been open."""


class Sessions(ABC):
    """The sessions of one family of engines. Every method takes a connection of the driver in autocommit, and raises the driver's errors."""

    @abstractmethod
    def find_id(self, connection: Any) -> int:
        """Return the server's identifier of the connection's own session."""

    @abstractmethod
    def limit_lock_wait(self, connection: Any, timeout_s: float) -> None:
        """Limit how long each later statement of the connection waits for a lock, as exactly as the engine can."""

    @abstractmethod
    def find_waiting(self, connection: Any, blocker: int) -> Sequence[int]:
        """Return the sessions that wait for a lock because of the session ``blocker``, and ``blocker`` too if it waits for one itself."""

    @abstractmethod
    def is_there(self, connection: Any, session: int) -> bool:
        """Whether the server still has a session."""

    @abstractmethod
    def end(self, connection: Any, session: int) -> None:
        """Begin to end a session, whose transaction is rolled back."""

    @abstractmethod
    def end_and_wait(self, connection: Any, session: int, within_s: float) -> bool:
        """End a session, which may have ended already; returns whether it has ended within ``within_s``."""

    @abstractmethod
    def find_clients(self, connection: Any) -> Sequence[ClientSession]:
        """Return the sessions of workers and producers in the connection's database."""

    @abstractmethod
    def find_old_transactions(self, connection: Any, older_than_s: float) -> Sequence[OldTransaction]:
        """Return the sessions with a transaction that is older than ``older_than_s``, the oldest first; not those of maintenance."""

    @abstractmethod
    def read_limit(self, connection: Any) -> int:
        """Return how many connections the server allows."""

    @abstractmethod
    def count(self, connection: Any) -> int:
        """Return how many connections are open."""

    @abstractmethod
    def create_limited_user(self, connection: Any, endpoint: Endpoint, name: str, password: SecretStr, limit: int) -> None:
        """Create a user of the server at ``endpoint`` that may connect ``limit`` times at once, and still has no right to."""

    @abstractmethod
    def admit_user(self, connection: Any, endpoint: Endpoint, name: str) -> None:
        """Let the user connect to the database of ``endpoint``."""

    @abstractmethod
    def drop_limited_user(self, connection: Any, endpoint: Endpoint, name: str) -> None:
        """Drop it."""


def query(connection: Any, statement: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
    """Execute a statement on a connection with DB-API's cursors, and return its rows, if it has any."""
    with connection.cursor() as cursor:
        cursor.execute(statement, tuple(values) or None)
        return list(cursor.fetchall()) if cursor.description else []
