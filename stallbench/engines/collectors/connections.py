"""A collector's connections, one to each server. They neither block a run nor put a noticeable load on the servers.

Autocommit keeps no transaction open between samples; the engine's driver bounds the time and memory of a statement.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any
from weakref import WeakSet

from stallbench.engines import driver_of
from stallbench.engines.collectors.document import WatchedServer

APPLICATION_PREFIX = "stallbench:collector:"
"""Prefix of the application name of every collector session on PostgreSQL."""

_FIRST_PAUSE_S = 0.25
_LONGEST_PAUSE_S = 4.0


_of_this_process: WeakSet[Connections] = WeakSet()


class NotMeasuredError(Exception):
    """Something could not be measured this time; the message says what, where and why."""


@dataclass(slots=True)
class _Line:
    """The connection to one server, or the time of the next attempt to connect."""

    engine: str
    connection: Any = None
    why_not: str = ""
    pause_s: float = 0.0
    next_try_s: float = 0.0


class Connections:
    """The connections of one collector, opened at first use and again after an error."""

    def __init__(self, collector: str) -> None:
        """Prepare for the collector ``name``; nothing is opened."""
        self._collector = collector
        self._lines: dict[str, _Line] = {}
        _of_this_process.add(self)

    def to(self, server: WatchedServer) -> Any:
        """Return the connection to ``server``.

        Raises `NotMeasuredError` when it cannot be reached. Attempts are separated by pauses that grow to 4 s; during a pause the same error is
        raised at once. So a server that is down is not flooded with connections, and the samples of other servers are not delayed.
        """
        line = self._lines.setdefault(server.name, _Line(server.endpoint.engine))
        if line.connection is not None and driver_of(line.engine).is_closed(line.connection):
            line.connection = None
        if line.connection is None:
            self._open(line, server)
        assert line.connection is not None, "opened, or an error was raised"
        return line.connection

    def peek(self, server: str) -> Any:
        """Return the connection to a server; none if there is none now."""
        line = self._lines.get(server)
        return None if line is None else line.connection

    def abort(self) -> None:
        """Abort the calls that another thread is waiting for on these connections; they fail as if the server had gone away.

        Needed for a server whose process runs but no longer answers, so that its own timeouts have no effect.
        """
        for line in self._lines.values():
            if line.connection is not None:
                driver_of(line.engine).abort(line.connection)

    def close(self) -> None:
        """Close all of them."""
        for line in self._lines.values():
            if line.connection is not None:
                driver_of(line.engine).close(line.connection)

    def _open(self, line: _Line, server: WatchedServer) -> None:
        if time.monotonic() < line.next_try_s:
            raise NotMeasuredError(line.why_not)
        driver = driver_of(line.engine)
        try:
            line.connection = driver.connect_for_sampling(server.endpoint, f"collector:{self._collector}")
            line.pause_s = 0.0
        except driver.errors as error:
            line.why_not = f"{server.name} cannot be reached: {driver.describe(error)}"
            line.pause_s = min(max(2 * line.pause_s, _FIRST_PAUSE_S), _LONGEST_PAUSE_S)
            line.next_try_s = time.monotonic() + line.pause_s
            raise NotMeasuredError(line.why_not) from error


def list_own_backends(server: str) -> list[int]:
    """Return the process ids that the collectors' sessions on a PostgreSQL server have there: their names could be those of others, too."""
    connections = [each.peek(server) for each in list(_of_this_process)]
    return [connection.info.backend_pid for connection in connections if connection is not None and not connection.closed]
