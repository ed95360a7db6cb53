"""Connects to an external Aerospike server; the bench starts none, because no package contains one.

There is no proxy, because Aerospike's clients use the addresses that the cluster reports and would bypass it.
"""

from __future__ import annotations

import importlib.util
import os
import re
import secrets
import socket
from contextlib import closing
from pathlib import Path
from typing import Any

from stallbench.engines.aerospike.driver import DRIVER
from stallbench.engines.database import Database
from stallbench.engines.starter import StartContext, Starter
from stallbench.errors import NotCarriedOutError
from stallbench.processes.process import Process
from stallbench.records.endpoint import PASSWORD_VARIABLE, Endpoint
from stallbench.setup.components import MissingComponentError
from stallbench.waiting import wait_until

ADDRESS_VARIABLE = "STALLBENCH_AEROSPIKE"
_FORM = "[USER@]HOST:PORT/NAMESPACE"
_ADDRESS = re.compile(r"(?:(?P<user>[^@/]+)@)?(?P<host>[^@:/]+):(?P<port>\d+)/(?P<namespace>[^/]+)")
_START_S = 10.0
_TRY_EVERY_S = 0.2


class ExternalAerospike:
    """An external server, on which the run has sets of its own with unique names."""

    name = "primary"
    process: Process | None = None
    log: Path | None = None

    def __init__(self, endpoint: Endpoint) -> None:
        """Ask it for its version; raises `NotCarriedOutError` if it cannot be reached, or has no such namespace."""
        self.endpoint = endpoint
        self.settings_in_force: dict[str, str] = {}
        where = f"Aerospike on {endpoint.host}:{endpoint.port} ({ADDRESS_VARIABLE})"
        driver = DRIVER
        try:
            with closing(_connect(endpoint)) as connection:
                self.version = connection.ask("build")
                namespaces = connection.ask("namespaces").split(";")
        except driver.errors as error:
            raise NotCarriedOutError(f"{where} cannot be reached: {driver.describe(error)}") from error
        if connection.namespace not in namespaces:
            raise NotCarriedOutError(f"{where} has no namespace {connection.namespace!r}; it has {', '.join(namespaces)}")

    def stop(self) -> None:
        """Do nothing: the server goes on, and the cleanup journal empties the sets of the run."""

    def kill(self) -> None:
        """Refuse; raises `NotCarriedOutError`."""
        raise NotCarriedOutError("the bench does not kill a server that it did not start")

    def start_again(self) -> None:
        """Refuse; raises `NotCarriedOutError`."""
        raise NotCarriedOutError("the bench does not start external servers")

    def check(self) -> None:
        """Do nothing: if it ends, its clients record errors."""


def _connect(endpoint: Endpoint) -> Any:
    """Connect. For about two seconds after its port has opened the server refuses clients, so this tries again as long as the port is open."""
    driver = DRIVER
    refusals: list[Exception] = []

    def try_to_connect() -> Any:
        try:
            return driver.connect(endpoint, "start")
        except driver.errors as error:
            refusals.append(error)
            if not _is_listening(endpoint):
                raise
            return None

    connection = wait_until(try_to_connect, within_s=_START_S, every_s=_TRY_EVERY_S)
    if connection is None:
        raise refusals[-1]
    return connection


def _is_listening(endpoint: Endpoint) -> bool:
    try:
        socket.create_connection((endpoint.host, endpoint.port), timeout=1.0).close()
    except OSError:
        return False
    return True


class AerospikeStarter(Starter):
    """Connects to the server that the environment names."""

    has_network = False

    def __init__(self, context: StartContext, database: Database) -> None:
        """Raise `MissingComponentError` if there is no server, or no client."""
        super().__init__(context, database)
        if obstacle := self.find_obstacle(database):
            raise MissingComponentError(
                f"{obstacle}; set {ADDRESS_VARIABLE} to {_FORM}, and install the client: "
                ".venv/bin/pip install --require-hashes -r requirements/aerospike.lock"
            )

    @classmethod
    def find_obstacle(cls, database: Database) -> str | None:
        """Return that no server is named, or no client is installed."""
        if not (address := os.environ.get(ADDRESS_VARIABLE)):
            return "no server"
        if not _ADDRESS.fullmatch(address):
            return f"no server: {ADDRESS_VARIABLE} is not of the form {_FORM}"
        return None if importlib.util.find_spec("aerospike") else "no client"

    def primary(self) -> ExternalAerospike:
        """Join the server."""
        address = _ADDRESS.fullmatch(os.environ[ADDRESS_VARIABLE])
        assert address is not None, "checked before"
        return ExternalAerospike(
            Endpoint(
                engine="aerospike",
                host=address["host"],
                port=int(address["port"]),
                database=f"{address['namespace']}/stallbench_{secrets.token_hex(4)}",
                user=address["user"] or "",
                password=os.environ.get(PASSWORD_VARIABLE, ""),
            )
        )
