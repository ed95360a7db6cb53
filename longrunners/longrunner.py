"""What every longrunner does: hold, watch whether it still holds, let go, and clean up after one that was killed."""

from __future__ import annotations

import select
from abc import ABC, abstractmethod
from typing import Any, ClassVar, Generic, TypeVar

import psycopg
from pydantic import BaseModel, ConfigDict, Field

from stallbench.connection import connect
from stallbench.records.endpoint import Endpoint
from stallbench.role import Stop

_LOOK_EVERY_S = 0.2

Connection = psycopg.Connection[tuple[Any, ...]]


class LongrunnerOptions(BaseModel):
    """Options of a kind, as the scenario gives them. Subclass, with a description on every field."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)


class LongrunnerDocument(BaseModel):
    """The JSON document that a longrunner is started with."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str = Field(description="names the process in the records and to the server")
    kind: str
    on: str = Field(default="primary", description="name of the server, for the records")
    endpoint: Endpoint
    options: dict[str, object] = {}
    release: bool = Field(default=False, description="only remove what one of this name left when it was killed")


class LostError(Exception):
    """The server ended what the longrunner held."""


OptionsT = TypeVar("OptionsT", bound=LongrunnerOptions)


class Longrunner(ABC, Generic[OptionsT]):
    """Holds the horizon until it is told to let go."""

    kind: ClassVar[str]
    """Its name in scenarios."""
    summary: ClassVar[str]
    """One sentence on what it does."""
    source: ClassVar[str]
    """Who has met it."""
    role: ClassVar[str] = "primary"
    """The role of the server that it runs on: ``primary`` or ``replica``."""
    options_type: ClassVar[type[LongrunnerOptions]] = LongrunnerOptions
    needs: ClassVar[dict[str, str]] = {}
    """Server settings without which it cannot hold, and what they must be, for the user to read."""

    def __init__(self, document: LongrunnerDocument, options: OptionsT) -> None:
        """Prepare; nothing is opened."""
        self.document = document
        self.options = options

    @property
    def object_name(self) -> str:
        """Name for what outlives a connection (a slot, a prepared transaction): recognisably the bench's."""
        return f"stallbench_{self.document.name.replace('-', '_')}"

    def connect(self) -> Connection:
        """Open a connection under the longrunner's name."""
        return connect(self.document.endpoint, f"longrunner:{self.document.name}")

    @abstractmethod
    def hold(self) -> dict[str, Any]:
        """Take hold and return what the server will know it by: its ``kind`` of holder, and ``pid``, ``gid`` or ``slot``."""

    @abstractmethod
    def keep(self, stop: Stop) -> None:
        """Return when asked to stop; raises `LostError` as soon as it holds no longer."""

    @abstractmethod
    def let_go(self) -> None:
        """End the hold."""

    def release(self) -> None:
        """Remove what a killed longrunner of this name left on the server; by default that is nothing."""


class TransactionLongrunner(Longrunner[OptionsT]):
    """Holds by one open transaction on one connection, in which it is idle."""

    _connection: Connection

    @abstractmethod
    def open_transaction(self, connection: Connection) -> None:
        """Begin the transaction and do in it what makes it hold the horizon."""

    def hold(self) -> dict[str, Any]:
        """Open the transaction."""
        self._connection = self.connect()
        self.open_transaction(self._connection)
        return {"kind": "backend", "pid": self._connection.info.backend_pid}

    def keep(self, stop: Stop) -> None:
        """Watch the connection without a query, which would end the idleness: the server only speaks up to end it."""
        while not stop.wait(_LOOK_EVERY_S):
            raise_if_ended(self._connection)

    def let_go(self) -> None:
        """Roll back."""
        self._connection.execute("ROLLBACK")
        self._connection.close()


def raise_if_ended(connection: Connection) -> None:
    """Raise `LostError` with the server's words if it has ended an idle connection."""
    readable, _, _ = select.select([connection.fileno()], [], [], 0)
    if not readable:
        return
    try:
        connection.execute("SELECT 1")
    except psycopg.Error as error:
        raise LostError(f"{error.sqlstate or 'connection'}: {str(error).strip()}") from error
