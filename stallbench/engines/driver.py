"""The interface between the bench and every engine's client library."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, ClassVar

from stallbench.records.endpoint import Endpoint
from stallbench.visible_text import make_visible

CONNECT_TIMEOUT_S = 10
"""Time limit for opening a connection."""
SAMPLING_TIMEOUT_S = 5.0
"""Time limit for a statement on a connection that only samples."""


class Driver(ABC):
    """Opens, checks and closes connections to one engine, and describes its errors."""

    errors: ClassVar[tuple[type[Exception], ...]]
    """The errors that its library raises when the server refuses a request or is gone."""
    yields_to_greenlets: ClassVar[bool] = True
    """Whether other greenlets of the same thread (gevent) run while one waits for the server: only if its library waits in Python."""

    @abstractmethod
    def connect(self, endpoint: Endpoint, name: str) -> Any:
        """Open a connection in autocommit. The server knows it by ``name``, if the engine has names of connections.

        Raises one of `errors` when the server cannot be reached within `CONNECT_TIMEOUT_S`.
        """

    def connect_for_sampling(self, endpoint: Endpoint, name: str) -> Any:
        """Open a connection that only samples: its statements end after `SAMPLING_TIMEOUT_S` and cost as little as possible."""
        return self.connect(endpoint, name)

    @abstractmethod
    def is_closed(self, connection: Any) -> bool:
        """Whether the connection is known to be closed."""

    def close(self, connection: Any) -> None:
        """Close the connection in any state; never raises one of `errors`."""
        with suppress(*self.errors):
            connection.close()

    def abort(self, connection: Any) -> None:
        """Interrupt the call of another thread on the connection: it fails as if the server were gone."""
        self.close(connection)

    @abstractmethod
    def console(self, endpoint: Endpoint) -> str:
        """Return the shell command that opens a console on the server, with the password in an environment variable."""

    def read_clock(self, connection: Any) -> int | None:
        """Return the server's wall clock in ns since 1970; none if the engine does not report it."""
        return None

    def vacuum_and_analyze(self, connection: Any, tables: Sequence[str]) -> None:  # noqa: B027 - most engines do this themselves, or never
        """Bring tables that were just filled into the state that the server's own maintenance would reach a minute later."""

    def code(self, error: Exception) -> str:
        """Return the error's code: an SQLSTATE, an error number, or else the name of its class."""
        return type(error).__name__

    def make_error(self, code: str, message: str) -> Exception:
        """Return one of `errors` with an error's ``code`` and ``message``, as a process in another language reported it.

        Of the engines on which libraries run, `code` then returns ``code``, whatever it is.
        """
        return self.errors[0](f"{code}: {message}" if code else message)

    def describe(self, error: Exception) -> str:
        """Return the error in one line, made visible: it may have what the server sent."""
        return make_visible(" ".join(str(error).split()), in_one_line=True) or type(error).__name__
