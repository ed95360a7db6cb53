"""What the bench needs of every engine's client library."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, ClassVar

from stallbench.records.endpoint import Endpoint

CONNECT_TIMEOUT_S = 10
"""How long a connection may take to be opened."""
SAMPLING_TIMEOUT_S = 5.0
"""How long a statement of a connection that only watches may take."""


class Driver(ABC):
    """Opens, watches and closes connections to one engine, and reads its errors."""

    errors: ClassVar[tuple[type[Exception], ...]]
    """Everything that its library raises when the server refuses or is gone."""
    yields_to_greenlets: ClassVar[bool] = True
    """Whether greenlets of the same thread (gevent's) have their turn while one waits for the server: its library waits in Python."""

    @abstractmethod
    def connect(self, endpoint: Endpoint, name: str) -> Any:
        """Open a connection in autocommit, known to the server by ``name`` where it can be told.

        Raises one of `errors` when the server cannot be reached within `CONNECT_TIMEOUT_S`.
        """

    def connect_for_sampling(self, endpoint: Endpoint, name: str) -> Any:
        """Open a connection that only looks: its statements end after `SAMPLING_TIMEOUT_S` and weigh as little as they can."""
        return self.connect(endpoint, name)

    @abstractmethod
    def is_closed(self, connection: Any) -> bool:
        """Whether the connection is known to be gone."""

    def close(self, connection: Any) -> None:
        """Close the connection, whatever state it is in; never raises one of `errors`."""
        with suppress(*self.errors):
            connection.close()

    def abort(self, connection: Any) -> None:
        """Break off whatever another thread waits for on the connection: its call then fails, as if the server had gone."""
        self.close(connection)

    @abstractmethod
    def console(self, endpoint: Endpoint) -> str:
        """Return the command by which a user looks at the server; a password goes by the environment."""

    def read_clock(self, connection: Any) -> int | None:
        """Return the server's wall clock in ns since 1970; none if it does not tell."""
        return None

    def settle(self, connection: Any, tables: Sequence[str]) -> None:  # noqa: B027 - most engines see to it themselves, or never do
        """Bring tables that were just filled to the state in which the server itself has them a minute later."""

    def code(self, error: Exception) -> str:
        """Return what the engine calls the kind of the error: an SQLSTATE, an error number, else the name of its class."""
        return type(error).__name__

    def describe(self, error: Exception) -> str:
        """Return the error in one line."""
        return " ".join(str(error).split()) or type(error).__name__
