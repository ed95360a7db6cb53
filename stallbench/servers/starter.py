"""What the bench does to bring up the servers of an engine: one subclass for each, and what it hands back."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Protocol

from pydantic import SecretStr

from stallbench.engines import driver_of
from stallbench.errors import NotCarriedOutError
from stallbench.processes.process import Process
from stallbench.processes.supervisor import Supervisor
from stallbench.records.endpoint import Endpoint
from stallbench.scenario.database import Database

_ASK_AGAIN_S = 0.05


class ServerControl(Protocol):
    """A server that the bench has started, or what stands for one."""

    name: str
    process: Process | None
    """None where the engine is a library."""
    version: str
    settings_in_force: dict[str, str]
    """Those that are not default, without secrets."""

    @property
    def endpoint(self) -> Endpoint:
        """Its own address, behind no proxy."""

    @property
    def log(self) -> Path | None:
        """What it logs, as text; none if it does not."""

    def stop(self) -> None:
        """Stop it in an orderly way."""

    def kill(self) -> None:
        """Kill all of it at once (SIGKILL), as a machine does that loses its power; what the kernel has of its files stays."""

    def start_again(self) -> None:
        """After `stop` or `kill`: start it on the same port and the same data, and return before it answers."""

    def check(self) -> None:
        """Raise `NotCarriedOutError` if it has died uninvited."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StartContext:
    """Where servers are brought up, and by what."""

    scratch: Path
    """Folder for their data, gone with the run."""
    logs: Path
    processes: Supervisor
    password: SecretStr


class Starter(ABC):
    """Brings up the servers of one engine."""

    engines: ClassVar[frozenset[str]]
    has_network: ClassVar[bool] = True
    """Whether clients reach it over a network, and so through a proxy."""

    def __init__(self, context: StartContext, database: Database) -> None:
        """Look for the engine's programs; raises `MissingComponentError` if they are not there."""
        self.context = context
        self.database = database

    @classmethod
    def find_obstacle(cls, database: Database) -> str | None:
        """Return, in words, what of ``database`` this machine's servers cannot do at all; none if there is nothing, or no server."""
        return None

    @abstractmethod
    def primary(self) -> ServerControl:
        """Start the server that the queue will live on, with an empty database; raises `NotCarriedOutError` if it does not come up."""

    def second_server(self, name: str) -> ServerControl:
        """Start a server that stands beside another engine's primary, and is called ``name``."""
        raise NotCarriedOutError(f"{self.database.engine} stands beside no other server")

    def replica(self, name: str, primary: ServerControl, proxy_port: int) -> ServerControl:
        """Start a replica that follows ``primary`` through the proxy on ``proxy_port``, and return it proven to follow."""
        raise NotCarriedOutError(f"{self.database.engine} has no replicas")

    def wait_for_replicas(self, primary: ServerControl, names: Sequence[str]) -> None:
        """Let every commit on ``primary`` wait, from now on, until one of its replicas ``names`` has it; return when that is in force."""
        raise NotCarriedOutError(f"{self.database.engine} has no synchronous replication")


def check_process(name: str, process: Process | None) -> None:
    """Raise `NotCarriedOutError` if a server's process has died uninvited."""
    if process and process.exited_unexpectedly():
        raise NotCarriedOutError(f"server {name} {process.describe_end()}{process.tail_log()}")


def answers(endpoint: Endpoint) -> bool:
    """Whether a server lets a client in now."""
    driver = driver_of(endpoint.engine)
    try:
        driver.close(driver.connect(endpoint, "start"))
    except driver.errors:
        return False
    return True


def wait_until_answering(name: str, process: Process, endpoint: Endpoint, within_s: float) -> None:
    """Wait until a server that has just been started lets a client in.

    Raises `NotCarriedOutError` with the end of its log if it ends before, or takes longer than ``within_s``.
    """
    driver = driver_of(endpoint.engine)
    until_s = time.monotonic() + within_s
    why = "it did not answer"
    while time.monotonic() < until_s:
        if process.poll() is not None:
            raise NotCarriedOutError(f"server {name} {process.describe_end()} while starting{process.tail_log()}")
        try:
            driver.close(driver.connect(endpoint, "start"))
            return
        except driver.errors as error:
            why = driver.describe(error)
            time.sleep(_ASK_AGAIN_S)
    raise NotCarriedOutError(f"server {name} did not start within {within_s:.0f} s: {why}{process.tail_log()}")
