"""Starts the servers of an engine: one subclass of `Starter` for each, and the `ServerControl` that it returns."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Protocol

from pydantic import SecretStr

from stallbench.engines import driver_of
from stallbench.engines.database import Database
from stallbench.engines.private_mount import PrivateMount
from stallbench.errors import NotCarriedOutError
from stallbench.processes.process import Process
from stallbench.processes.supervisor import Supervisor
from stallbench.records.endpoint import Endpoint
from stallbench.waiting import wait_until

_TRY_EVERY_S = 0.05


class ServerControl(Protocol):
    """Controls one server: a process of the bench, the file of a library like SQLite, or an external server."""

    name: str
    process: Process | None
    """None for a library and for an external server."""
    version: str
    settings_in_force: dict[str, str]
    """Those that are not default, without secrets."""

    @property
    def endpoint(self) -> Endpoint:
        """Its own address, past the proxy."""

    @property
    def log(self) -> Path | None:
        """Its text log; none if it has none."""

    def stop(self) -> None:
        """Shut it down cleanly."""

    def kill(self) -> None:
        """Kill all its processes at once (SIGKILL), as in a power failure, but what the kernel holds of its files is kept."""

    def start_again(self) -> None:
        """After `stop` or `kill`, start it on the same port and the same data; returns before it answers."""

    def check(self) -> None:
        """Raise `NotCarriedOutError` if it exited unexpectedly."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StartContext:
    """What every starter needs."""

    scratch: Path
    """Folder for the servers' data; removed at the end of the run."""
    logs: Path
    processes: Supervisor
    password: SecretStr


class Starter(ABC):
    """Starts the servers of one engine."""

    has_network: ClassVar[bool] = True
    """Whether clients reach it over a network, and so through a proxy."""

    def __init__(self, context: StartContext, database: Database) -> None:
        """Find the engine's programs; raises `MissingComponentError` if they are not installed."""
        self.context = context
        self.database = database

    @classmethod
    def find_obstacle(cls, database: Database) -> str | None:
        """Return which part of ``database`` the installed servers do not support; none if they support all, or none is installed."""
        return None

    @abstractmethod
    def primary(self) -> ServerControl:
        """Start the queue's server with an empty database; raises `NotCarriedOutError` if it does not answer in time."""

    def second_server(self, name: str) -> ServerControl:
        """Start the second server, called ``name``, of a queue whose primary is of another engine."""
        raise NotCarriedOutError(f"{self.database.engine} cannot be the second server of a queue")

    def replica(self, name: str, primary: ServerControl, proxy_port: int) -> ServerControl:
        """Start a replica of ``primary`` that replicates through the proxy on ``proxy_port``; returns after it was verified to follow."""
        raise NotCarriedOutError(f"{self.database.engine} has no replicas")

    def wait_for_replicas(self, primary: ServerControl, names: Sequence[str]) -> None:
        """Make every commit on ``primary`` wait until one of its replicas ``names`` has it; returns when that is in force."""
        raise NotCarriedOutError(f"{self.database.engine} has no synchronous replication")


class ServerProcess(ABC):
    """A server that is a process of the bench, without children."""

    name: str
    process: Process | None = None
    disk: PrivateMount | None = None
    """Where its data are, if that is a disk that only it sees."""

    start_s: ClassVar[float]
    """How long it may take to start, and to end."""

    def stop(self) -> None:
        """Shut it down cleanly."""
        if self.process:
            self.process.stop(self.start_s)

    def kill(self) -> None:
        """Kill it."""
        if self.process:
            self.process.kill()

    def start_again(self) -> None:
        """Start it on the same port, with the same data; returns before it answers."""
        self.process = self.launch()

    def check(self) -> None:
        """Raise `NotCarriedOutError` if it exited unexpectedly."""
        if self.process and self.process.exited_unexpectedly():
            raise NotCarriedOutError(f"server {self.name} {self.process.describe_end()}{self.process.tail_log()}")

    @abstractmethod
    def launch(self) -> Process:
        """Start the process; returns before it answers."""


def answers(endpoint: Endpoint) -> bool:
    """Whether a client can connect now."""
    return refusal_of(endpoint) is None


def refusal_of(endpoint: Endpoint) -> str | None:
    """Return why a client cannot connect now; none if it can."""
    driver = driver_of(endpoint.engine)
    try:
        driver.close(driver.connect(endpoint, "start"))
    except driver.errors as error:
        return driver.describe(error)
    return None


def wait_until_answering(name: str, process: Process, endpoint: Endpoint, within_s: float) -> None:
    """Wait until a client can connect to a server that has just been started.

    Raises `NotCarriedOutError` with the end of its log if it ends before, or takes longer than ``within_s``.
    """
    refusals = ["it did not answer"]

    def is_answering() -> bool:
        if process.poll() is not None:
            raise NotCarriedOutError(f"server {name} {process.describe_end()} while starting{process.tail_log()}")
        if refusal := refusal_of(endpoint):
            refusals.append(refusal)
        return not refusal

    if not wait_until(is_answering, within_s=within_s, every_s=_TRY_EVERY_S):
        raise NotCarriedOutError(f"server {name} did not start within {within_s:.0f} s: {refusals[-1]}{process.tail_log()}")
