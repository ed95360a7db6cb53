"""What every collector offers, and what it is given: the servers, the queue, and connections of its own to them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, ClassVar, Literal

import psycopg
from pydantic import BaseModel, ConfigDict, Field

from stallbench.connection import connect
from stallbench.records.endpoint import Endpoint
from stallbench.records.samples import Sample

Connection = psycopg.Connection[tuple[Any, ...]]
APPLICATION = "collectors"
_STATEMENT_TIMEOUT_MS = 5000
_LOCK_TIMEOUT_MS = 100


class WatchedServer(BaseModel):
    """A server that is watched, by its direct address."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str
    role: Literal["primary", "replica"]
    endpoint: Endpoint
    log: Path | None = Field(default=None, description="its log, if this machine has it")


class WatchedQueue(BaseModel):
    """The queue under test."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    kind: str
    options: dict[str, object] = {}
    tables: tuple[str, ...]
    indexes: tuple[str, ...]


class CollectorsDocument(BaseModel):
    """The JSON document that the collectors are started with."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str
    run_folder: Path
    interval_s: float = Field(gt=0)
    servers: tuple[WatchedServer, ...]
    queue: WatchedQueue


class Watch:
    """What collectors share: the document, and one connection to each server, opened when needed and again after it broke.

    Statements are bounded in time and every connection is in autocommit, so that a collector neither hangs a run nor holds
    its horizon.
    """

    def __init__(self, document: CollectorsDocument) -> None:
        """Remember whom to ask; nothing is opened."""
        self.document = document
        self._connections: dict[str, Connection] = {}

    @property
    def primary(self) -> WatchedServer:
        """The server that the queue lives on."""
        return next(server for server in self.document.servers if server.role == "primary")

    def connections(self) -> Iterator[tuple[WatchedServer, Connection]]:
        """Go through all servers, each with its connection."""
        for server in self.document.servers:
            yield server, self.connection(server)

    def connection(self, server: WatchedServer) -> Connection:
        """Return the connection to ``server``; raises `psycopg.OperationalError` when it cannot be reached."""
        connection = self._connections.get(server.name)
        if connection is None or connection.closed:
            connection = connect(server.endpoint, APPLICATION)
            connection.execute(f"SET statement_timeout = {_STATEMENT_TIMEOUT_MS}")
            connection.execute(f"SET lock_timeout = {_LOCK_TIMEOUT_MS}")
            connection.execute("SET default_transaction_read_only = on")
            self._connections[server.name] = connection
        return connection

    def close(self) -> None:
        """Close all connections."""
        for connection in self._connections.values():
            connection.close()


class Collector(ABC):
    """One subject that is sampled at the run's cadence."""

    name: ClassVar[str]
    """Also the name of its file in ``samples/``."""

    def __init__(self, watch: Watch) -> None:
        """Watch what ``watch`` knows of."""
        self.watch = watch

    @abstractmethod
    def sample(self) -> Iterable[Sample]:
        """Measure once. What it raises is recorded, and it is asked again at the next beat."""


def samples_of(source: str, subject: str, values: Mapping[str, float | int | str | None]) -> Iterator[Sample]:
    """Make a sample of each of ``values`` that is known."""
    for metric, value in values.items():
        if value is not None:
            yield Sample(source, subject, metric, value)
