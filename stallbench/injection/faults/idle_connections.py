"""Another application opens every connection that the server allows, and does nothing with them."""

from __future__ import annotations

import secrets
import time
from typing import Any

from pydantic import Field, SecretStr

from stallbench.engines import ENGINES, SESSION_ENGINES, driver_of
from stallbench.engines.error_kinds import ErrorKind
from stallbench.errors import NotCarriedOutError
from stallbench.injection.faults.fault import Fault, FaultOptions, FaultPlace
from stallbench.records.injections import Evidence
from stallbench.waiting import wait_until

_MOST = 5000
_ROLE = "others"
_ENOUGH = "enough"
_FILL_WITHIN_S = 30.0
"""A server that ends connections faster than they are opened is never full."""
_FREE_WITHIN_S = 20.0
_POLL_S = 0.02
_LOOKS, _LOOK_EVERY_S = 8, 0.03
"""How often the open connections are counted. The smallest number is used, so that short-lived connections are not included."""


class IdleConnectionsOptions(FaultOptions):
    """Options of `IdleConnections`."""

    count: int | None = Field(
        default=None,
        ge=1,
        le=_MOST,
        description="how many connections; if not given, as many as the server allows, and another one whenever one becomes free",
    )
    leave_free: int | None = Field(
        default=None,
        ge=1,
        le=_MOST,
        description="instead of a count: so many that this number of connections is free when the fault begins",
    )
    limit: int | None = Field(
        default=None,
        ge=1,
        le=_MOST,
        description="a mitigation: the connections belong to a separate role, which the server limits to this number of connections",
    )
    may_be_ended: bool = Field(
        default=False,
        description="whether the server may end them early, as a timeout does; then they are leaked connections, which are not opened again",
    )


class IdleConnections(Fault[IdleConnectionsOptions]):
    """A client that has a connection keeps it; a new connection is refused. The connections do not go through the proxy: other applications do not
    share the queue's network path, so faults on that path do not affect them. The fault also uses the connections that the server reserves for
    superusers, because clients of the bench may use these.
    """

    kind = "idle_connections"
    meanwhile = "idle connections used up those of the server"
    summary = "opens idle connections: a given number, or all that the server allows and another whenever one becomes free"
    source = (
        "connection pools of other services, leaks, and scale-outs that reach max_connections: 'sorry, too many clients already'"
    )
    explains_errors = frozenset({ErrorKind.CANNOT_CONNECT})
    targets = ("server",)
    on_external = "if allowed"
    engines = SESSION_ENGINES
    options_type = IdleConnectionsOptions

    @classmethod
    def find_issue(cls, options: IdleConnectionsOptions, place: FaultPlace) -> tuple[str, str] | None:
        """Find an issue: a second number of connections."""
        if options.leave_free is None or (options.count is None and options.limit is None):
            return None
        return "leave_free", f" is given beside a {'limit' if options.count is None else 'count'}; expected one of the two"

    @classmethod
    def find_external_issue(cls, options: IdleConnectionsOptions, on: str) -> tuple[str, str] | None:
        """Find a limit: its role would stay if the bench were killed."""
        if options.limit is None:
            return None
        return (
            "limit",
            f" creates a role on {on}, which the bench does only on servers that it starts; leave it out, or leave out --dsn",
        )

    def inject(self) -> Evidence:
        """Open the connections. If no number is given, the server's refusal is the evidence."""
        self._endpoint = self.context.cluster.server(self.on).direct
        self._driver = driver_of(self._endpoint.engine)
        self._sessions = ENGINES[self._endpoint.engine].sessions()
        self._connections: list[Any] = []
        self._own = self._endpoint
        if self.options.limit is not None:
            self._create_role(self.options.limit)
        self._wanted = self._count_wanted()
        refusal = self._open_more()
        if self._wanted is None and refusal is None:
            raise NotCarriedOutError(f"{self.on} still accepts connections after {len(self._connections)} of them")
        if self.options.leave_free is not None and refusal is not None:
            raise NotCarriedOutError(f"{self.on} refused a connection before only {self.options.leave_free} were free: {refusal}")
        return {"connections": len(self._connections), "refusal": refusal}

    def tick(self) -> None:
        """Open another connection wherever one became free, unless they are leaked connections."""
        if self._wanted is None and not self.options.may_be_ended:
            self._open_more()

    def why_inactive(self) -> str | None:
        """Check that the connections are still open, and that the server still refuses more."""
        if self.options.may_be_ended:
            return None
        if self._wanted is None and self._open_more() is None:
            return f"{self.on} accepts connections again"
        ended = [why for connection in self._connections if (why := self._find_end(connection))]
        return f"{len(ended)} of its connections have ended: {ended[0]}" if ended else None

    def undo(self) -> Evidence:
        """Close the connections, and wait until the server accepts one."""
        if not hasattr(self, "_connections"):
            return {}
        still_open = sum(self._find_end(connection) is None for connection in self._connections)
        for connection in self._connections:
            self._driver.close(connection)
        connection = self._connect_when_free()
        try:
            if self._own is not self._endpoint:
                self._sessions.drop_limited_user(connection, self._endpoint, _ROLE)
        finally:
            self._driver.close(connection)
        return {"ended": len(self._connections) - still_open}

    def _create_role(self, limit: int) -> None:
        own = self._endpoint.model_copy(update={"user": _ROLE, "password": SecretStr(secrets.token_urlsafe(18))})
        connection = self._driver.connect(self._endpoint, self.name)
        try:
            self._sessions.create_limited_user(connection, self._endpoint, _ROLE, own.password, limit)
            self._own = own  # from here on, `undo` drops the role, which is the fault's
            self._sessions.admit_user(connection, self._endpoint, _ROLE)
        finally:
            self._driver.close(connection)

    def _count_wanted(self) -> int | None:
        """Return how many connections to open; none: as many as the server allows."""
        if self.options.leave_free is None:
            return self.options.count
        connection = self._driver.connect(self._endpoint, self.name)
        try:
            limit = used = self._sessions.read_limit(connection)
            for _ in range(_LOOKS):
                used = min(used, self._sessions.count(connection))
                time.sleep(_LOOK_EVERY_S)
        finally:
            self._driver.close(connection)
        return max(0, limit - (used - 1) - self.options.leave_free)  # this connection will be free again

    def _open_more(self) -> str | None:
        """Open connections up to the intended number, or until the server refuses one; return its message, or none if it did not refuse."""
        most = _MOST if self._wanted is None else self._wanted

        def open_one() -> str | None:
            """Open one connection; return the refusal, or that the intended number is open."""
            if len(self._connections) >= most:
                return _ENOUGH
            try:
                self._connections.append(self._driver.connect(self._own, self.name))
            except self._driver.errors as error:
                if not self._is_full(error):
                    raise
                return self._driver.describe(error)
            return None

        refusal = wait_until(open_one, within_s=_FILL_WITHIN_S, every_s=0)
        return None if refusal == _ENOUGH else refusal

    def _connect_when_free(self) -> Any:
        """Wait until the server has noticed that the connections were closed and accepts one."""

        def connect() -> Any:
            try:
                return self._driver.connect(self._endpoint, self.name)
            except self._driver.errors as error:
                if not self._is_full(error):
                    raise
            return None

        connection = wait_until(connect, within_s=_FREE_WITHIN_S, every_s=_POLL_S)
        if connection is None:
            raise NotCarriedOutError(
                f"{self.on} still refuses connections {_FREE_WITHIN_S:.0f} s after its idle connections were closed"
            )
        return connection

    def _find_end(self, connection: Any) -> str | None:
        """Return why a connection has ended, or none if it has not."""
        try:
            with connection.cursor() as cursor:
                cursor.execute("SELECT 1")
        except self._driver.errors as error:
            return self._driver.describe(error)
        return None

    def _is_full(self, error: Exception) -> bool:
        return self._driver.code(error) in ENGINES[self._endpoint.engine].too_many_connections
