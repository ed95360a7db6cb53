"""The interface of every collector: one subject, sampled periodically."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, ClassVar

from stallbench.engines import driver_of, loaded_errors
from stallbench.engines.collectors.connections import Connections, NotMeasuredError
from stallbench.engines.collectors.document import CollectorsDocument, WatchedServer
from stallbench.records.samples import Sample


class Collector(ABC):
    """One subject, sampled at the run's interval in its own thread."""

    name: ClassVar[str]
    """Also the name of its file in ``samples/``, and part of its sessions' application name."""
    engines: ClassVar[frozenset[str] | None] = None
    """Of a collector in an installed package: the engines that it can sample; all if None. One in an engine's folder samples that engine."""
    is_of_servers: ClassVar[bool] = True
    """Whether it reads servers only: neither the queue under test nor the host. Such a collector can also observe a server of others."""
    shortest_interval_s: ClassVar[float] = 0.0
    """The shortest sampling interval, even if the run's interval is shorter; for expensive queries."""

    def __init__(self, document: CollectorsDocument) -> None:
        """Prepare to sample what ``document`` names; no query is sent yet."""
        self.document = document
        self.connections = Connections(self.name)
        self.every_s = 0.0
        """How far apart its samples must be, as the last one has found; the run's interval if that is longer."""

    @abstractmethod
    def sample(self) -> Iterable[Sample]:
        """Take one sample. Yields what could be measured, then raises for what could not; the next sample is taken as usual."""

    def close(self) -> None:
        """Close its connections."""
        self.connections.close()


class ServerCollector(Collector):
    """A collector that samples each server separately, so that a server that is down does not hide the others."""

    roles: ClassVar[tuple[str, ...]] = ("primary",)
    """Roles of the servers that it samples."""

    def sample(self) -> Iterator[Sample]:
        """Sample each server. Raises `NotMeasuredError` at the end if one of them could not be sampled."""
        failures = []
        for server in self.document.servers:
            if server.role not in self.roles:
                continue
            driver = driver_of(server.endpoint.engine)
            try:
                yield from self.sample_server(server, self.connections.to(server))
            except NotMeasuredError as error:
                failures.append(str(error))
            except loaded_errors() as error:
                failures.append(f"{server.name}: {driver.describe(error)}")
        if failures:
            raise NotMeasuredError("; ".join(failures))

    @abstractmethod
    def sample_server(self, server: WatchedServer, connection: Any) -> Iterable[Sample]:
        """Take one sample of one server."""


def samples_of(source: str, subject: str, values: Mapping[str, float | int | str | None]) -> Iterator[Sample]:
    """Return a sample for each known value of ``values``."""
    for metric, value in values.items():
        if value is not None:
            yield Sample(source, subject, metric, value)
