"""Somebody else takes every connection that the server has to give, and does nothing with them."""

from __future__ import annotations

import secrets
import time
from collections.abc import Mapping
from typing import Any

from pydantic import Field, SecretStr

from stallbench.engines import driver_of
from stallbench.engines.error_kinds import ErrorKind
from stallbench.errors import NotCarriedOutError
from stallbench.faults.fault import Fault, FaultOptions

_MOST = 5000
_FULL = {"postgres": ("53300",), "mariadb": ("1040", "1203", "1226"), "mysql": ("1040", "1203", "1226")}
"""How each server says that there are too many connections, of all or of one user."""
_FULL_ON_POSTGRES = ("too many clients", "too many connections", "connection slots are reserved")
"""The same where libpq has no SQLSTATE for it: the connection was never made."""
_OTHERS = "others"
_FILL_WITHIN_S = 30.0
"""A server that ends them faster than they come is never full."""
_FREE_WITHIN_S = 20.0
_LOOK_AGAIN_S = 0.02

_CREATE = {
    "postgres": "CREATE ROLE {name} LOGIN PASSWORD '{secret}' CONNECTION LIMIT {limit}",
    "mariadb": "CREATE USER '{name}'@'{host}' IDENTIFIED BY '{secret}' WITH MAX_USER_CONNECTIONS {limit}",
}
_ALLOW = {
    "postgres": "GRANT CONNECT ON DATABASE {database} TO {name}",
    "mariadb": "GRANT SELECT ON {database}.* TO '{name}'@'{host}'",
}
_DROP = {
    "postgres": "REVOKE CONNECT ON DATABASE {database} FROM {name}; DROP ROLE {name}",
    "mariadb": "DROP USER '{name}'@'{host}'",
}


class IdleConnectionsOptions(FaultOptions):
    """Options of `IdleConnections`."""

    count: int | None = Field(
        default=None,
        ge=1,
        le=_MOST,
        description="how many; if not given, until the server refuses, and again whenever one becomes free",
    )
    limit: int | None = Field(
        default=None,
        ge=1,
        le=_MOST,
        description="the mitigation: they belong to a role of their own, and the server lets it have so many at once",
    )
    may_be_ended: bool = Field(
        default=False,
        description="whether the server may end them before their time, as a timeout does; then they are leaked ones, and nobody opens them anew",
    )


class IdleConnections(Fault[IdleConnectionsOptions]):
    """Who has a connection goes on; who loses it, or comes anew, is told that there are too many.

    They do not go through the proxy: other applications come their own way, and what strikes the way of the queue's clients leaves
    them alone. Clients of the bench may use the connections that the server keeps for superusers, and so do these.
    """

    kind = "idle_connections"
    summary = "opens connections that do nothing, until the server refuses more, and takes every one that becomes free"
    source = "pools of other services, leaks, and scale-outs that meet max_connections: 'sorry, too many clients already'"
    explains_errors = frozenset({ErrorKind.CANNOT_CONNECT})
    places = ("server",)
    on_external = "if allowed"
    engines = frozenset({"postgres", "mariadb", "mysql"})
    options_type = IdleConnectionsOptions

    def inject(self) -> dict[str, Any]:
        """Open them; without a count the server's refusal is the evidence."""
        self._endpoint = self.context.cluster.server(self.on).direct
        self._driver = driver_of(self._endpoint.engine)
        self._connections: list[Any] = []
        self._own = self._endpoint
        if self.options.limit is not None:
            self._create_role()
        refusal = self._open_more()
        if self.options.count is None and refusal is None:
            raise NotCarriedOutError(f"{self.on} still takes connections after {len(self._connections)} of them")
        return {"connections": len(self._connections), "refusal": refusal}

    def keep_up(self) -> None:
        """Take what has become free, unless nobody knows of them any more."""
        if self.options.count is None and not self.options.may_be_ended:
            self._open_more()

    def find_lapse(self) -> str | None:
        """Look whether they are still open, and the server is still full."""
        if self.options.may_be_ended:
            return None
        if self.options.count is None and self._open_more() is None:
            return f"{self.on} takes connections again"
        ended = [why for connection in self._connections if (why := self._find_end(connection))]
        return f"{len(ended)} of its connections have ended: {ended[0]}" if ended else None

    def undo(self) -> dict[str, Any]:
        """Close them, and see that the server lets somebody in."""
        if not hasattr(self, "_connections"):
            return {}
        still_open = sum(self._find_end(connection) is None for connection in self._connections)
        for connection in self._connections:
            self._driver.close(connection)
        connection = self._connect_when_free()
        try:
            if self._own is not self._endpoint:
                self._run(connection, _DROP)
        finally:
            self._driver.close(connection)
        return {"ended": len(self._connections) - still_open}

    def _create_role(self) -> None:
        self._own = self._endpoint.model_copy(update={"user": _OTHERS, "password": SecretStr(secrets.token_urlsafe(18))})
        connection = self._driver.connect(self._endpoint, self.name)
        try:
            self._run(connection, _CREATE)
            self._run(connection, _ALLOW)
        finally:
            self._driver.close(connection)

    def _run(self, connection: Any, wordings: Mapping[str, str]) -> None:
        family = "postgres" if self._endpoint.engine == "postgres" else "mariadb"
        text = wordings[family].format(
            name=_OTHERS,
            secret=self._own.password.get_secret_value(),
            limit=self.options.limit,
            database=self._endpoint.database,
            host=self._endpoint.host,
        )
        with connection.cursor() as cursor:
            for statement in text.split("; "):
                cursor.execute(statement)

    def _open_more(self) -> str | None:
        """Open until there are enough, or the server refuses; returns its words, or none if it did not."""
        most = self.options.count or _MOST
        until_s = time.monotonic() + _FILL_WITHIN_S
        while len(self._connections) < most and time.monotonic() < until_s:
            try:
                self._connections.append(self._driver.connect(self._own, self.name))
            except self._driver.errors as error:
                if not self._is_full(error):
                    raise
                return self._driver.describe(error)
        return None

    def _connect_when_free(self) -> Any:
        """Connect as soon as the server has seen that the others are gone."""
        until_s = time.monotonic() + _FREE_WITHIN_S
        while True:
            try:
                return self._driver.connect(self._endpoint, self.name)
            except self._driver.errors as error:
                if not self._is_full(error) or time.monotonic() >= until_s:
                    raise
                time.sleep(_LOOK_AGAIN_S)

    def _find_end(self, connection: Any) -> str | None:
        """Return why a connection has ended, or none if it has not."""
        try:
            with connection.cursor() as cursor:
                cursor.execute("SELECT 1")
        except self._driver.errors as error:
            return self._driver.describe(error)
        return None

    def _is_full(self, error: Exception) -> bool:
        is_told = any(words in str(error) for words in _FULL_ON_POSTGRES)
        return self._driver.code(error) in _FULL[self._endpoint.engine] or is_told
