"""What every collector is: one subject, measured from outside, again and again."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, ClassVar

from stallbench.collectors.connections import Connections, NotMeasuredError
from stallbench.collectors.document import CollectorsDocument, WatchedServer
from stallbench.engines import driver_of, loaded_errors
from stallbench.records.samples import Sample


class Collector(ABC):
    """One subject that is sampled at the run's cadence, in a thread of its own."""

    name: ClassVar[str]
    """Also the name of its file in ``samples/``, and part of its sessions' application name."""
    engines: ClassVar[frozenset[str] | None] = None
    """Engines that it knows how to ask; all if none."""
    shortest_interval_s: ClassVar[float] = 0.0
    """It is asked no more often than this, however short the run's interval is: for what is dear to measure."""

    def __init__(self, document: CollectorsDocument) -> None:
        """Watch what ``document`` names; nothing is asked yet."""
        self.document = document
        self.connections = Connections(self.name)

    @abstractmethod
    def sample(self) -> Iterable[Sample]:
        """Measure once. Yields what could be measured, then raises for what could not; it is asked again at the next beat."""

    def close(self) -> None:
        """Close its connections."""
        self.connections.close()


POSTGRES = frozenset({"postgres"})
INNODB = frozenset({"mariadb", "mysql"})


class ServerCollector(Collector):
    """A collector that asks one server after the other, each for itself, so that one that is down does not hide the others."""

    roles: ClassVar[tuple[str, ...]] = ("primary",)
    """Roles of the servers that it asks."""

    def sample(self) -> Iterator[Sample]:
        """Measure each server; raises `NotMeasuredError` at the end if one could not be."""
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
        """Measure one server once."""


def samples_of(source: str, subject: str, values: Mapping[str, float | int | str | None]) -> Iterator[Sample]:
    """Make a sample of each of ``values`` that is known."""
    for metric, value in values.items():
        if value is not None:
            yield Sample(source, subject, metric, value)
