"""The server ends the connections of clients, one after the other, and the clients must reconnect."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any, Literal

from pydantic import Field

from stallbench.base.duration import Duration
from stallbench.engines import driver_of
from stallbench.engines.error_kinds import ErrorKind
from stallbench.errors import NotCarriedOutError
from stallbench.injection.faults.combination import Combination
from stallbench.injection.faults.fault import Fault, FaultOptions
from stallbench.records.injections import Evidence
from stallbench.waiting import wait_until

_ENDED_WITHIN_S = 10.0
_POLL_S = 0.005
_NO_SUCH_THREAD = "1094"

# In other databases of an external server there may be another bench, or, on MySQL, another application whose users have such names.
_POSTGRES_FIND = """
SELECT pid, pg_catalog.substr(application_name, 12) FROM pg_catalog.pg_stat_activity
WHERE backend_type = 'client backend' AND datname = pg_catalog.current_database() AND application_name ~ '^stallbench:(worker|producer)-'
"""
_MYSQL_FIND = "SELECT id, user FROM information_schema.processlist WHERE db = database() AND user REGEXP '^(worker|producer)-'"


class TerminateBackendsOptions(FaultOptions):
    """Options of `TerminateBackends`."""

    every_s: Duration = Field(default=0.5, alias="every", gt=0, le=3600, description="time from one termination to the next")
    of: Literal["workers", "producers", "clients"] = Field(
        default="clients", description="whose connections: the workers', the producers', or both"
    )


class TerminateBackends(Fault[TerminateBackendsOptions]):
    """The operation in progress is rolled back, and the client does not know whether it was committed."""

    kind = "terminate_backends"
    meanwhile = "the server ended connections of clients"
    summary = "ends connections of clients on the server, one at a time at an interval (pg_terminate_backend, KILL)"
    source = "administrators and watchdogs that end sessions, fail-overs of managed databases, idle timeouts"
    explains_errors = frozenset({ErrorKind.CONNECTION_LOST, ErrorKind.CANNOT_CONNECT})
    targets = ("server",)
    combination = Combination(place="clients", needs=frozenset({"server"}))
    engines = frozenset({"postgres", "mariadb", "mysql"})
    options_type = TerminateBackendsOptions

    def inject(self) -> Evidence:
        """End the first connection."""
        server = self.context.cluster.server(self.on)
        self._driver = driver_of(server.direct.engine)
        self._is_postgres = server.direct.engine == "postgres"
        self._connection = self._driver.connect(server.direct, self.name)
        self._terminated: dict[str, int] = {}
        self._next_s = time.monotonic()
        self._terminate_one()
        if not self._terminated:
            raise NotCarriedOutError(f"no connection of {self.options.of} was found on {self.on}")
        return {"terminated": self._terminated}

    def tick(self) -> None:
        """End the connections that are due; if no client is connected at that moment, none is ended. Terminations that become due meanwhile are
        skipped: on a server that is slower than the interval, the run would otherwise never continue.
        """
        now_s = time.monotonic()
        while self._next_s <= now_s:
            self._terminate_one()
        self._next_s = max(self._next_s, time.monotonic())

    def undo(self) -> Evidence:
        """Stop ending connections."""
        if hasattr(self, "_connection"):
            self._driver.close(self._connection)
        return {}

    def _terminate_one(self) -> None:
        self._next_s += self.options.every_s
        roles = ("worker", "producer") if self.options.of == "clients" else (self.options.of.removesuffix("s"),)
        backends = sorted((int(row[0]), str(row[1])) for row in self._query(_POSTGRES_FIND if self._is_postgres else _MYSQL_FIND))
        candidates = [(pid, client) for pid, client in backends if client.startswith(roles)]
        if not candidates:
            return
        pid, client = self.random.choice(candidates)
        if not (self._terminate_on_postgres(pid) if self._is_postgres else self._terminate_on_mysql(pid)):
            raise NotCarriedOutError(f"the connection {pid} of {client} on {self.on} could not be ended")
        self._terminated[client] = self._terminated.get(client, 0) + 1

    def _terminate_on_postgres(self, pid: int) -> bool:
        """Whether the backend has ended, now or before."""
        self._query(f"SELECT pg_catalog.pg_terminate_backend({pid}, {_ENDED_WITHIN_S * 1000:.0f})")
        return not self._query(f"SELECT 1 FROM pg_catalog.pg_stat_activity WHERE pid = {pid} AND backend_type = 'client backend'")

    def _terminate_on_mysql(self, pid: int) -> bool:
        try:
            self._query(f"KILL {pid}")
        except self._driver.errors as error:
            if self._driver.code(error) != _NO_SUCH_THREAD:
                raise
        still_there = f"SELECT 1 FROM information_schema.processlist WHERE id = {pid}"
        return bool(wait_until(lambda: not self._query(still_there), within_s=_ENDED_WITHIN_S, every_s=_POLL_S))

    def _query(self, statement: str) -> Sequence[Sequence[Any]]:
        with self._connection.cursor() as cursor:
            cursor.execute(statement)
            return list(cursor.fetchall()) if cursor.description else []
