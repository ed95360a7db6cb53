"""Somebody else takes every connection that the server has to give, and does nothing with them."""

from __future__ import annotations

from typing import Any

from pydantic import Field

from stallbench.drivers import driver_of
from stallbench.errors import NotCarriedOutError
from stallbench.faults.injected_fault import FaultOptions, InjectedFault

_MOST = 5000
_FULL = {"postgres": ("53300",), "mariadb": ("1040",), "mysql": ("1040",)}
"""How each server says that there are too many connections."""


class IdleConnectionsOptions(FaultOptions):
    """Options of `IdleConnections`."""

    count: int | None = Field(
        default=None,
        ge=1,
        le=_MOST,
        description="how many; if not given, until the server refuses, and again whenever one becomes free",
    )


class IdleConnections(InjectedFault[IdleConnectionsOptions]):
    """Who has a connection goes on; who loses it, or comes anew, is told that there are too many.

    They do not go through the proxy: other applications come their own way, and what strikes the way of the queue's clients leaves
    them alone. Clients of the bench may use the connections that the server keeps for superusers, and so do these.
    """

    kind = "idle_connections"
    summary = "opens connections that do nothing, until the server refuses more, and takes every one that becomes free"
    source = "pools of other services, leaks, and scale-outs that meet max_connections: 'sorry, too many clients already'"
    places = ("server",)
    engines = frozenset(_FULL)
    options_type = IdleConnectionsOptions

    def inject(self) -> dict[str, Any]:
        """Open them; without a count the server's refusal is the evidence."""
        self._endpoint = self.ground.cluster.server(self.on).direct
        self._driver = driver_of(self._endpoint.engine)
        self._connections: list[Any] = []
        refusal = self._open_more()
        if self.options.count is None and refusal is None:
            raise NotCarriedOutError(f"{self.on} still takes connections after {_MOST} of them")
        return {"connections": len(self._connections), "refusal": refusal}

    def keep_up(self) -> None:
        """Take what has become free."""
        if self.options.count is None:
            self._open_more()

    def find_lapse(self) -> str | None:
        """Look whether they are still open, and the server is still full."""
        if self.options.count is None and self._open_more() is None:
            return f"{self.on} takes connections again"
        for connection in self._connections:
            try:
                with connection.cursor() as cursor:
                    cursor.execute("SELECT 1")
            except self._driver.errors as error:
                return f"one of its connections has ended: {self._driver.tell(error)}"
        return None

    def undo(self) -> dict[str, Any]:
        """Close them, and see that the server lets somebody in."""
        held = len(getattr(self, "_connections", []))
        for connection in getattr(self, "_connections", []):
            self._driver.close(connection)
        self._driver.close(self._driver.connect(self._endpoint, self.name))
        return {"connections": held}

    def _open_more(self) -> str | None:
        """Open until there are enough, or the server refuses; returns its words, or none if it did not."""
        most = self.options.count or _MOST
        while len(self._connections) < most:
            try:
                self._connections.append(self._driver.connect(self._endpoint, self.name))
            except self._driver.errors as error:
                if not self._is_full(error):
                    raise
                return self._driver.tell(error)
        return None

    def _is_full(self, error: Exception) -> bool:
        return self._driver.code(error) in _FULL[self._endpoint.engine] or "too many clients" in str(error)
