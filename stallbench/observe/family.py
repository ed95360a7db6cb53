"""What observes the servers of one family of engines: a folder here with the name of the family, whose module ``family`` has an instance as ``FAMILY``."""

from __future__ import annotations

from abc import ABC, abstractmethod
from importlib import import_module
from typing import TYPE_CHECKING, ClassVar

from stallbench.engines import ENGINES

if TYPE_CHECKING:
    from datetime import datetime
    from pathlib import Path

    from stallbench.observe.address import ObservedServers
    from stallbench.observe.observer import Observer
    from stallbench.observe.options import ObserveOptions
    from stallbench.observe.postgres.load import LoadDiagnostic
    from stallbench.observe.postgres.queues import QueuesDiagnostic
    from stallbench.records.endpoint import Endpoint


class ObservedFamily(ABC):
    """One family. Its modules are loaded only when a server of it is observed: the report is asked for while a queue is slow."""

    reads_logs: ClassVar[bool] = False
    """Whether it reads the server's log, if that is on this machine."""
    variants: ClassVar[str]
    """The variants of a recorded scenario: the same load beside what holds the horizon, and mitigations."""

    @abstractmethod
    def read_address(self, name: str, engine: str, address: str) -> tuple[Endpoint, object]:
        """Read an address of the server ``name``, and how its session is encrypted, in the family's own words: none if the endpoint says it.

        Raises `BadInputError`.
        """

    @abstractmethod
    def prepare(self, options: ObserveOptions) -> tuple[QueuesDiagnostic, LoadDiagnostic | None, Observer]:
        """Return what finds and counts queues, what records the load of one if that is asked for, and the observer, which has read nothing yet."""

    @abstractmethod
    def observe_since(self, servers: ObservedServers, since: datetime, log: Path | None) -> Observer:
        """Return the observer of what a server still knows of the time from ``since`` on. ``log``: the server's, if `reads_logs`."""


def find_family(engine: str) -> ObservedFamily:
    """Return the family of an engine whose servers have addresses."""
    family: ObservedFamily = import_module(f"stallbench.observe.{ENGINES[engine].family}.family").FAMILY
    return family
