"""The collectors' configuration: which servers and which queue to sample, how often, and where to write."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from stallbench.processes.exposure import Exposure
from stallbench.records.endpoint import Endpoint


class WatchedServer(BaseModel):
    """A server to sample, by its direct address."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str = Field(description="for a replica also the application name that it streams under")
    role: Literal["primary", "replica"]
    endpoint: Endpoint
    log: Path | None = Field(default=None, description="its log, as text, if this machine has it")
    log_bytes_before: int = Field(
        default=0, ge=0, description="size of its log at the start of the run; what is in it is of earlier runs"
    )


class WatchedQueue(BaseModel):
    """The queue under test."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    kind: str
    options: dict[str, object] = {}
    tables: tuple[str, ...]
    indexes: tuple[str, ...]
    claim_pattern: str = Field(default="", description="regular expression that finds its claim statement; empty if it has none")
    advisory_locks: int = Field(default=0, description="maximum number of advisory locks that a session holds at once")


class CollectorsDocument(BaseModel):
    """The JSON document that the collectors are started with."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str = Field(description="identifies the process in the records and on the servers")
    run_folder: Path = Field(description="the run's folder; samples/ in it exists")
    interval_s: float = Field(gt=0, description="time between two samples of a collector, in seconds")
    servers: tuple[WatchedServer, ...] = Field(min_length=1, description="the servers to sample")
    queue: WatchedQueue = Field(description="the queue under test")
    only: tuple[str, ...] = Field(default=(), description="names of the collectors that run; all that sample the engine if empty")
    hides_values: bool = Field(
        default=False, description="whether statements are those of others, so that no value of theirs is recorded"
    )
    expose: Exposure | None = Field(
        default=None, description="address at which Prometheus can scrape the process; none if not given"
    )

    @property
    def primary(self) -> WatchedServer:
        """The server that holds the queue: the one with role primary, else the first."""
        return next((server for server in self.servers if server.role == "primary"), self.servers[0])
