"""A connection pooler, pgbouncer, is put between the clients and PostgreSQL while the load runs."""

from __future__ import annotations

from pydantic import Field

from stallbench.engines import engines_with
from stallbench.engines.database import PoolerMode
from stallbench.engines.error_kinds import ErrorKind
from stallbench.injection.faults.fault import Fault, FaultOptions
from stallbench.records.injections import Evidence
from stallbench.servers.pgbouncer import Pgbouncer


class PoolerOptions(FaultOptions):
    """Options of `Pooler`."""

    mode: PoolerMode = Field(default="transaction", description="for how long a client keeps its server connection")
    pool_size: int = Field(default=4, ge=1, le=500, description="server connections that all clients share")


class Pooler(Fault[PoolerOptions]):
    """In transaction mode each transaction of a client may run on another server connection.

    The state of a session (statements prepared by name, session advisory locks, settings, LISTEN) is then missing, or belongs to another client.
    Clients keep their address: while the fault is active, the server's proxy forwards to the pooler. All clients must reconnect when it begins
    and when it ends.
    """

    kind = "pooler"
    meanwhile = "clients shared a few connections through pgbouncer"
    summary = "clients reach the server through pgbouncer, which shares a few server connections among them, for each transaction or each session"
    source = "pgbouncer's documentation: features, 'SQL feature map for pooling modes'"
    explains_errors = frozenset({ErrorKind.CONNECTION_LOST, ErrorKind.CANNOT_CONNECT, ErrorKind.SESSION_STATE_LOST})
    targets = ("server",)
    on_external = "never"
    engines = engines_with("pooler")
    passes_pooler = True
    options_type = PoolerOptions

    def inject(self) -> Evidence:
        """Start pgbouncer, wait until it serves, and route the clients through it."""
        self._pgbouncer = Pgbouncer(
            self.name,
            self.context.cluster.server(self.on).direct,
            mode=self.options.mode,
            pool_size=self.options.pool_size,
            processes=self.context.processes,
            logs=self.context.logs,
            scratch=self.context.scratch,
        )
        self._pools: dict[str, int] = {}
        toxiproxy, endpoint = self.context.cluster.toxiproxy, self._pgbouncer.endpoint
        self._upstream = toxiproxy.upstream(self.on)
        toxiproxy.set_upstream(self.on, f"{endpoint.host}:{endpoint.port}")
        return {"pgbouncer": self._pgbouncer.version, "mode": self.options.mode, "most": self._pools}

    def tick(self) -> None:
        """Record the largest numbers of clients and server connections that pgbouncer reports."""
        self._pgbouncer.check()
        for pool in self._pgbouncer.pools():
            clients = int(pool["cl_active"]) + int(pool["cl_waiting"])
            servers = sum(int(pool[state]) for state in ("sv_active", "sv_idle", "sv_used", "sv_tested"))
            self._pools["clients"] = max(self._pools.get("clients", 0), clients)
            self._pools["server_connections"] = max(self._pools.get("server_connections", 0), servers)

    def why_inactive(self) -> str | None:
        """Check that clients connect through it."""
        self.tick()
        return None if self._pools.get("clients") else "no client connected through it"

    def undo(self) -> Evidence:
        """Route the clients to the server again, then stop pgbouncer."""
        if hasattr(self, "_upstream"):
            self.context.cluster.toxiproxy.set_upstream(self.on, self._upstream)
        if hasattr(self, "_pgbouncer"):
            self._pgbouncer.stop()
        return {}
