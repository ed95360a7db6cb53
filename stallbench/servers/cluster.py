"""The servers of a run: a primary, its replicas, and the proxies that everybody but the collectors goes through."""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from pydantic import SecretStr

from stallbench.errors import NotCarriedOutError
from stallbench.parts import require_postgres
from stallbench.processes import Processes
from stallbench.records.endpoint import Endpoint
from stallbench.scenario import Database
from stallbench.servers.ports import require_free
from stallbench.servers.postgres import (
    PostgresInstallation,
    PostgresServer,
    choose_installation,
    create_data_folder,
    create_database,
)
from stallbench.servers.replica import copy_primary, replica_settings, wait_until_streaming
from stallbench.servers.toxiproxy import ToxiproxyServer

Role = Literal["primary", "replica"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Server:
    """One server that is up, and both ways to it."""

    name: str
    role: Role
    direct: Endpoint
    """For collectors and proofs."""
    proxied: Endpoint
    """For clients."""
    log: Path
    postgres: PostgresServer
    start_ns: int

    def record(self) -> dict[str, Any]:
        """Return its part of ``run.json``."""
        process = self.postgres.process
        return {
            "name": self.name,
            "role": self.role,
            "engine": "postgres",
            "version": self.postgres.version,
            "port": self.direct.port,
            "proxy_port": self.proxied.port,
            "settings": self.postgres.settings_in_force,
            "start_ns": self.start_ns,
            "end_ns": process.end_ns if process else None,
        }


class Cluster:
    """The servers that are up, in the order primary, replica-1, ..."""

    def __init__(self, toxiproxy: ToxiproxyServer) -> None:
        """Begin with none."""
        self.toxiproxy = toxiproxy
        self.servers: list[Server] = []

    def server(self, name: str) -> Server:
        """Return the server of that name; raises `NotCarriedOutError` if there is none."""
        for server in self.servers:
            if server.name == name:
                return server
        raise NotCarriedOutError(f"there is no server {name!r}; there are {', '.join(s.name for s in self.servers)}")

    def check(self) -> None:
        """Raise `NotCarriedOutError` if a server, or the proxy before it, has died uninvited."""
        for server in self.servers:
            server.postgres.check()
        if self.toxiproxy.process.ended_uninvited():
            raise NotCarriedOutError(f"Toxiproxy {self.toxiproxy.process.tell_end()}{self.toxiproxy.process.tail_log()}")

    def records(self) -> list[dict[str, Any]]:
        """Return all of them for ``run.json``."""
        return [server.record() for server in self.servers]

    def stop(self) -> None:
        """Stop the replicas, then the primary."""
        for server in reversed(self.servers):
            server.postgres.stop()


def start_cluster(
    database: Database, *, scratch: Path, logs: Path, processes: Processes, progress: Callable[[str], None]
) -> Cluster:
    """Bring up what ``database`` asks for, with data folders below ``scratch``, and return it proven to answer and to stream.

    ``progress`` is told, in a sentence, what has been reached. Raises `NotCarriedOutError` when a part is missing, a port is
    taken, a setting is refused, or a server does not come up.
    """
    if database.port is not None:
        require_free(database.port, "database.port")
    installation = choose_installation(require_postgres(database.version))
    installation.own(scratch, 0o711)
    password = SecretStr(secrets.token_urlsafe(18))
    toxiproxy = ToxiproxyServer(processes, logs)
    cluster = Cluster(toxiproxy)
    start = _Start(installation, scratch, logs, processes, password, toxiproxy)
    cluster.servers.append(start.primary(database))
    progress(_tell(cluster.servers[-1], toxiproxy))
    for number in range(1, database.replicas + 1):
        cluster.servers.append(start.replica(f"replica-{number}", database, cluster.servers[0]))
        progress(_tell(cluster.servers[-1], toxiproxy))
    return cluster


@dataclass(frozen=True, slots=True)
class _Start:
    installation: PostgresInstallation
    scratch: Path
    logs: Path
    processes: Processes
    password: SecretStr
    toxiproxy: ToxiproxyServer

    def primary(self, database: Database) -> Server:
        data = self.scratch / "primary"
        create_data_folder(self.installation, data, self.password)
        server = self._serve("primary", data, dict(database.settings), database.port, first_database="postgres")
        create_database(server.endpoint)
        return self._put_behind_proxy(server, "primary")

    def replica(self, name: str, database: Database, primary: Server) -> Server:
        data = self.scratch / name
        proxy_port = self.toxiproxy.add_proxy(f"replication-{name}", primary.direct.port)
        copy_primary(self.installation, data, self.password, name=name, proxy_port=proxy_port, slot=database.replication_slot)
        server = self._serve(name, data, replica_settings(database), None)
        wait_until_streaming(primary.direct, name)
        return self._put_behind_proxy(server, "replica")

    def _serve(
        self, name: str, data: Path, settings: dict[str, Any], port: int | None, first_database: str | None = None
    ) -> PostgresServer:
        server = PostgresServer(
            name,
            self.installation,
            data,
            self.password,
            processes=self.processes,
            logs=self.logs,
            settings=settings,
            port=port,
        )
        server.start(first_database)
        return server

    def _put_behind_proxy(self, server: PostgresServer, role: Role) -> Server:
        direct = server.endpoint
        proxied = direct.model_copy(update={"port": self.toxiproxy.add_proxy(server.name, direct.port)})
        return Server(
            name=server.name,
            role=role,
            direct=direct,
            proxied=proxied,
            log=server.log,
            postgres=server,
            start_ns=time.time_ns(),
        )


def _tell(server: Server, toxiproxy: ToxiproxyServer) -> str:
    return f"{server.name} is up: PostgreSQL {server.postgres.version}, behind Toxiproxy {toxiproxy.version}"
