"""The collectors' configuration: which servers and which queue to sample, how often, and where to write."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from stallbench.exposition import Exposure
from stallbench.records.endpoint import Endpoint


class WatchedServer(BaseModel):
    """A server to sample, by its direct address."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str = Field(description="for a replica also the application name that it streams under")
    role: Literal["primary", "replica"]
    endpoint: Endpoint
    log: Path | None = Field(default=None, description="its log, as text or jsonlog, if this machine has it")


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
    servers: tuple[WatchedServer, ...] = Field(min_length=1)
    queue: WatchedQueue
    expose: Exposure | None = Field(default=None, description="where to answer Prometheus; nowhere if not given")

    @property
    def primary(self) -> WatchedServer:
        """The server that holds the queue: the one with role primary, else the first."""
        return next((server for server in self.servers if server.role == "primary"), self.servers[0])
