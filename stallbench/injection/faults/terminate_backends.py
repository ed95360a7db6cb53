"""The server ends the connections of clients, one after the other, and the clients must reconnect."""

from __future__ import annotations

import time
from typing import Literal

from pydantic import Field

from stallbench.base.duration import Duration
from stallbench.engines import ENGINES, SESSION_ENGINES, driver_of
from stallbench.engines.error_kinds import ErrorKind
from stallbench.errors import NotCarriedOutError
from stallbench.injection.faults.combination import Combination
from stallbench.injection.faults.fault import Fault, FaultOptions
from stallbench.records.injections import Evidence

_ENDED_WITHIN_S = 10.0


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
    engines = SESSION_ENGINES
    options_type = TerminateBackendsOptions

    def inject(self) -> Evidence:
        """End the first connection."""
        server = self.context.cluster.server(self.on)
        self._driver = driver_of(server.direct.engine)
        self._sessions = ENGINES[server.direct.engine].sessions()
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
        candidates = sorted(one for one in self._sessions.find_clients(self._connection) if one.client.startswith(roles))
        if not candidates:
            return
        pid, client = self.random.choice(candidates)
        if not self._sessions.end_and_wait(self._connection, pid, _ENDED_WITHIN_S):
            raise NotCarriedOutError(f"the connection {pid} of {client} on {self.on} could not be ended")
        self._terminated[client] = self._terminated.get(client, 0) + 1
