"""The servers of a run: a primary, its replicas, and the proxies that all clients except the collectors go through."""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from pydantic import SecretStr

from stallbench.base.ports import require_free
from stallbench.engines import ENGINES, driver_of
from stallbench.engines.database import Database
from stallbench.engines.starter import ServerControl, StartContext, Starter
from stallbench.engines.volatile_disk import require_volatile_disk
from stallbench.errors import NotCarriedOutError
from stallbench.processes.supervisor import Supervisor
from stallbench.records.endpoint import Endpoint
from stallbench.servers.pgbouncer import Pgbouncer
from stallbench.servers.record import Role, ServerRecord

if TYPE_CHECKING:
    from stallbench.servers.toxiproxy import ToxiproxyServer


@dataclass(frozen=True, slots=True, kw_only=True)
class Server:
    """One running server, and its two addresses."""

    name: str
    role: Role
    direct: Endpoint
    """For collectors and verification, past the proxy."""
    proxied: Endpoint
    """For clients, through the proxy."""
    control: ServerControl
    start_ns: int
    pooler: Pgbouncer | None = None
    """Between the proxy and the server; none without `Database.pooler`."""

    @property
    def log(self) -> Path | None:
        """Its text log; none if it has none."""
        return self.control.log

    def record(self) -> ServerRecord:
        """Return its record for ``run.json``."""
        process = self.control.process
        return ServerRecord(
            name=self.name,
            role=self.role,
            engine=self.direct.engine,
            version=self.control.version,
            port=self.direct.port or None,
            proxy_port=self.proxied.port or None,
            pooler=self.pooler.description if self.pooler else None,
            settings=self.control.settings_in_force,
            start_ns=self.start_ns,
            end_ns=process.end_ns if process else None,
        )


class Cluster:
    """The servers, in the order primary, replica-1, ..."""

    def __init__(self, toxiproxy: ToxiproxyServer | None) -> None:
        """Begin without servers. ``toxiproxy``: none for an engine without a network."""
        self._toxiproxy = toxiproxy
        self.servers: list[Server] = []
        self.second: Server | None = None
        """A server of another engine, for a queue that needs two; the primary's endpoints name it as their second."""

    @property
    def toxiproxy(self) -> ToxiproxyServer:
        """The proxy in front of all servers; raises `NotCarriedOutError` if there is none."""
        if self._toxiproxy is None:
            raise NotCarriedOutError("this engine has no network between clients and server, and therefore no proxy")
        return self._toxiproxy

    @property
    def has_proxy(self) -> bool:
        """Whether there is a proxy."""
        return self._toxiproxy is not None

    def server(self, name: str) -> Server:
        """Return the server of that name; raises `NotCarriedOutError` if there is none.

        ``primary`` is the current primary: the server that clients reach by that name.
        """
        for server in self.servers:
            if (server.role == "primary") if name == "primary" else (server.name == name):
                return server
        raise NotCarriedOutError(f"there is no server {name!r}; there are {', '.join(s.name for s in self.servers)}")

    @property
    def running(self) -> list[Server]:
        """The servers that are not fenced."""
        return [server for server in self.servers if server.role != "fenced"]

    @property
    def running_by_role(self) -> list[Server]:
        """The same, with the current primary called ``primary`` even if it was a replica before."""
        return [replace(server, name="primary") if server.role == "primary" else server for server in self.running]

    def set_primary(self, name: str) -> None:
        """Make the promoted replica ``name`` the primary: the proxy of the former primary routes clients to it.

        Another replica no longer has a primary to follow.
        """
        dead, promoted = self.server("primary"), self.server(name)
        self.toxiproxy.set_upstream("primary", f"{promoted.direct.host}:{promoted.direct.port}")
        parts: dict[str, Server] = {
            dead.name: replace(dead, role="fenced"),
            promoted.name: replace(
                promoted,
                role="primary",
                proxied=dead.proxied,
                direct=promoted.direct.model_copy(update={"second": dead.direct.second}),
            ),
        }
        self.servers = [parts.get(server.name, server) for server in self.servers]

    def describe_access(self) -> list[str]:
        """Return, for each server, the command that opens a console on it. The password is in the environment, not in the command."""
        return [
            f"{driver_of(server.direct.engine).console(server.direct)}   # {server.name}"
            + (f"; through Toxiproxy: port {server.proxied.port}" if self.has_proxy else "")
            for server in self.servers
        ]

    def check(self) -> None:
        """Raise `NotCarriedOutError` if a server, or the proxy in front of it, exited unexpectedly."""
        for server in self._all:
            server.control.check()
            if server.pooler:
                server.pooler.check()
        proxy = self._toxiproxy.process if self._toxiproxy else None
        if proxy and proxy.exited_unexpectedly():
            raise NotCarriedOutError(f"Toxiproxy {proxy.describe_end()}{proxy.tail_log()}")

    def records(self) -> list[ServerRecord]:
        """Return the records of all servers for ``run.json``."""
        return [server.record() for server in self._all]

    @property
    def _all(self) -> list[Server]:
        return [*self.servers, *([self.second] if self.second else [])]


def start_cluster(
    database: Database,
    *,
    scratch: Path,
    logs: Path,
    processes: Supervisor,
    progress: Callable[[str], None],
    second_engine: str | None = None,
) -> Cluster:
    """Start the servers that ``database`` describes, with data folders below ``scratch``; returns when they answer and replicate.

    ``progress`` is called with a sentence after each step. ``second_engine``: engine of a second server beside the primary.

    Raises `NotCarriedOutError` if a component is missing, a port is taken, a setting is refused, or a server does not answer in time.
    """
    from stallbench.servers.toxiproxy import start_toxiproxy

    if database.port is not None:
        require_free(database.port, "database.port")
    if database.volatile_cache:
        require_volatile_disk()
    context = StartContext(scratch=scratch, logs=logs, processes=processes, password=SecretStr(secrets.token_urlsafe(18)))
    starter = ENGINES[database.engine].starter()(context, database)
    cluster = Cluster(start_toxiproxy(processes, logs) if starter.has_network else None)
    primary = starter.primary()
    _add_server(cluster, primary, "primary", starter, progress)
    if database.pooler is not None:
        _add_pooler(cluster, database, context, progress)
    for number in range(1, database.replicas + 1):
        name = f"replica-{number}"
        proxy_port = cluster.toxiproxy.add_proxy(f"replication-{name}", primary.endpoint.port)
        _add_server(cluster, starter.replica(name, primary, proxy_port), "replica", starter, progress)
    if second_engine is not None:
        _start_second_server(cluster, second_engine, context, progress)
    if database.synchronous:
        starter.wait_for_replicas(primary, [server.name for server in cluster.servers[1:]])
        progress("each commit waits until a replica has it")
    return cluster


def _add_server(cluster: Cluster, control: ServerControl, role: Role, starter: Starter, progress: Callable[[str], None]) -> None:
    """Put a started server behind its proxy and add it to the cluster."""
    direct = proxied = control.endpoint.model_copy(update={"prepared_statements": starter.database.prepared_statements})
    behind = ""
    if cluster.has_proxy:
        proxied = direct.model_copy(update={"port": cluster.toxiproxy.add_proxy(control.name, direct.port)})
        behind = f", behind Toxiproxy {cluster.toxiproxy.version}"
    cluster.servers.append(
        Server(name=control.name, role=role, direct=direct, proxied=proxied, control=control, start_ns=time.time_ns())
    )
    progress(f"{control.name} is up: {ENGINES[starter.database.engine].title} {control.version}{behind}")


def _add_pooler(cluster: Cluster, database: Database, context: StartContext, progress: Callable[[str], None]) -> None:
    """Start a pooler, and let the primary's proxy forward to it; replication and collectors pass it by."""
    assert database.pooler is not None
    primary = cluster.servers[0]
    pooler = Pgbouncer(
        "pooler",
        primary.direct,
        mode=database.pooler,
        pool_size=database.pooler_size,
        processes=context.processes,
        logs=context.logs,
        scratch=context.scratch,
    )
    cluster.toxiproxy.set_upstream(primary.name, f"{pooler.endpoint.host}:{pooler.endpoint.port}")
    cluster.servers[0] = replace(primary, pooler=pooler)
    progress(f"clients reach {primary.name} through {pooler.description}")


def _start_second_server(cluster: Cluster, engine: str, context: StartContext, progress: Callable[[str], None]) -> None:
    """Start a server of another engine behind a separate proxy, and name it in the primary's endpoints."""
    starter = ENGINES[engine].starter()(context, Database.model_validate({"engine": engine}))
    control = starter.second_server(engine)
    direct = control.endpoint
    proxied = direct.model_copy(update={"port": cluster.toxiproxy.add_proxy(engine, direct.port)})
    cluster.second = Server(name=engine, role="second", direct=direct, proxied=proxied, control=control, start_ns=time.time_ns())
    primary = cluster.servers[0]
    cluster.servers[0] = replace(
        primary,
        direct=primary.direct.model_copy(update={"second": direct}),
        proxied=primary.proxied.model_copy(update={"second": proxied}),
    )
    progress(f"{ENGINES[starter.database.engine].title} {control.version} is up as the second server")
