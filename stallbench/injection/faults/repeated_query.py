"""Other clients of the database repeat a query: a dashboard, a metrics exporter, a health check."""

from __future__ import annotations

import time

from pydantic import Field

from stallbench.base.duration import Duration
from stallbench.errors import NotCarriedOutError
from stallbench.injection.faults.fault import Fault, FaultOptions
from stallbench.injection.faults.side_session import SideSession
from stallbench.records.injections import Evidence
from stallbench.waiting import wait_until

_TABLE = "{table}"
_GONE_WITHIN_S = 20.0
_LOOK_EVERY_S = 0.05


class RepeatedQueryOptions(FaultOptions):
    """Options of `RepeatedQuery`."""

    sql: str = Field(description=f"the query, in which {_TABLE} stands for the queue's first table; it can only read")
    every_s: Duration = Field(
        default=1.0,
        alias="every",
        gt=0,
        le=3600,
        description="from one query of a client to its next, which waits for the answer",
    )
    clients: int = Field(
        default=1, ge=1, le=100, description="how many clients, each with a connection; their queries are spread in time"
    )


class _Client:
    """One connection, and when its next query is due."""

    def __init__(self, session: SideSession, due_s: float) -> None:
        self.session = session
        self.due_s = due_s
        self.is_waiting = False


class RepeatedQuery(Fault[RepeatedQueryOptions]):
    """Each client sends the query, waits for the answer, and sends it again when it is due, in sessions that cannot write."""

    kind = "repeated_query"
    meanwhile = "other clients repeated a query"
    summary = "other clients repeat a query on the queue's database"
    source = "dashboards and exporters that count jobs by state: River issue 746, riverui issue 106 and pull request 655"
    targets = ("primary",)
    engines = frozenset({"postgres"})
    options_type = RepeatedQueryOptions

    _clients: tuple[_Client, ...] = ()

    def inject(self) -> Evidence:
        """Connect, and begin the first queries. The server's plan of the query is the evidence that it can be carried out."""
        options = self.options
        self._sql = options.sql.replace(_TABLE, self.context.queue.tables[0])
        self._answered = 0
        endpoint = self.context.cluster.server(self.on).direct
        now_s = time.monotonic()
        clients: list[_Client] = []
        for number in range(options.clients):
            session = SideSession(endpoint, f"{self.name}:{number + 1}")
            clients.append(_Client(session, now_s + number * options.every_s / options.clients))
            self._clients = tuple(clients)
            session.run("SET default_transaction_read_only = on")
        plan = clients[0].session.run(f"EXPLAIN {self._sql}")
        self.tick()
        return {"query": self._sql, "plan": str(plan[0][0]), "clients": options.clients}

    def tick(self) -> None:
        """Take the answers, and send what is due. Raises an error of the driver if the server refuses a query."""
        for client in self._clients:
            now_s = time.monotonic()
            if client.is_waiting and not client.session.is_running:
                client.session.succeeded()
                self._answered += 1
                client.is_waiting = False
            if not client.is_waiting and now_s >= client.due_s:
                client.due_s = max(client.due_s + self.options.every_s, now_s)
                client.is_waiting = True
                client.session.begin(self._sql)

    def why_inactive(self) -> str | None:
        """Return that no query was answered, if none was."""
        return None if self._answered else "no query was answered"

    def undo(self) -> Evidence:
        """End the sessions, and verify that the server has none of them any more."""
        clients, self._clients = self._clients, ()
        for client in clients:
            client.session.end()
        if not clients:
            return {}
        watch = SideSession(self.context.cluster.server(self.on).direct, f"{self.name}:watch")
        try:
            are_gone = wait_until(
                lambda: not any(client.session.is_known(watch) for client in clients),
                within_s=_GONE_WITHIN_S,
                every_s=_LOOK_EVERY_S,
            )
        finally:
            watch.end()
        if not are_gone:
            raise NotCarriedOutError(f"sessions of {self.name} are still there {_GONE_WITHIN_S:.0f} s after their end")
        return {"answered": self._answered}
