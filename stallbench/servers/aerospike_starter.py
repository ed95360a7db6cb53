"""Connects to an external Aerospike server; the bench starts none, because no package contains one.

There is no proxy, because Aerospike's clients use the addresses that the cluster reports and would bypass it. Not yet tried on a real server.
"""

from __future__ import annotations

import importlib.util
import os
import re
import secrets
from pathlib import Path
from typing import Any

from stallbench.engines import driver_of
from stallbench.errors import NotCarriedOutError
from stallbench.processes.process import Process
from stallbench.records.endpoint import PASSWORD_VARIABLE, Endpoint
from stallbench.scenario.database import Database
from stallbench.servers.starter import StartContext, Starter
from stallbench.setup.components import MissingComponentError

ADDRESS_VARIABLE = "STALLBENCH_AEROSPIKE"
_FORM = "[USER@]HOST:PORT/NAMESPACE"
_ADDRESS = re.compile(r"(?:(?P<user>[^@/]+)@)?(?P<host>[^@:/]+):(?P<port>\d+)/(?P<namespace>[^/]+)")
_SETS = ("fcfs", "id_store", "token_store")


class ExternalAerospike:
    """An external server, on which the run has sets of its own with unique names."""

    name = "primary"
    process: Process | None = None
    log: Path | None = None

    def __init__(self, endpoint: Endpoint) -> None:
        """Ask it for its version; raises `NotCarriedOutError` if it cannot be reached."""
        self.endpoint = endpoint
        self.settings_in_force: dict[str, str] = {}
        driver = driver_of("aerospike")
        try:
            self._connection: Any = driver.connect(endpoint, "start")
            self.version = str(self._connection.client.info_random_node("build")).split()[-1]
        except driver.errors as error:
            where = f"{endpoint.host}:{endpoint.port}"
            raise NotCarriedOutError(
                f"Aerospike on {where} ({ADDRESS_VARIABLE}) cannot be reached: {driver.describe(error)}"
            ) from error

    def stop(self) -> None:
        """Empty the run's own sets and disconnect."""
        for kind in _SETS:
            for name in (kind, f"{kind}_jobs"):
                self._connection.client.truncate(self._connection.namespace, f"{self._connection.prefix}_{name}", 0)
        self._connection.close()

    def kill(self) -> None:
        """Refuse; raises `NotCarriedOutError`."""
        raise NotCarriedOutError("the bench does not kill a server that it did not start")

    def start_again(self) -> None:
        """Refuse; raises `NotCarriedOutError`."""
        raise NotCarriedOutError("the bench does not start external servers")

    def check(self) -> None:
        """Do nothing: if it ends, its clients record errors."""


class AerospikeStarter(Starter):
    """Connects to the server that the environment names."""

    engines = frozenset({"aerospike"})
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
