"""A collector's own connections, one to each server, made so that they neither hang a run nor weigh on it.

In autocommit, so that nothing is open between samples; statements are bounded in time; nothing is written; and no statement is spread over
several processors or compiled, for the servers need both cores themselves.
"""

from __future__ import annotations

import os
import socket
import time
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import psycopg

from stallbench.collectors.document import WatchedServer
from stallbench.connection import connect

Connection = psycopg.Connection[tuple[Any, ...]]

APPLICATION_PREFIX = "stallbench:collector:"
"""What the application name of every collector's session begins with."""

STATEMENT_TIMEOUT_S = 5.0
_SETTINGS = f"""
SET statement_timeout = '{STATEMENT_TIMEOUT_S:.0f}s';
SET lock_timeout = '100ms';
SET idle_session_timeout = 0;
SET default_transaction_read_only = on;
SET max_parallel_workers_per_gather = 0;
SET jit = off
"""
_FIRST_PAUSE_S = 0.25
_LONGEST_PAUSE_S = 4.0


class NotMeasuredError(Exception):
    """Something could not be measured this time; the message says what, where and why."""


@dataclass(slots=True)
class _Line:
    """The connection to one server, or when the next try is due."""

    connection: Connection | None = None
    why_not: str = ""
    pause_s: float = 0.0
    next_try_s: float = 0.0


class Connections:
    """The connections of one collector, opened when they are first needed and again after they broke."""

    def __init__(self, collector: str) -> None:
        """Speak for the collector of that name; nothing is opened."""
        self._collector = collector
        self._lines: dict[str, _Line] = {}

    def to(self, server: WatchedServer) -> Connection:
        """Return the connection to ``server``.

        Raises `NotMeasuredError` when it cannot be reached. Further tries are put off by pauses that grow to 4 s, in which the same error is
        raised at once: a server that is down is not hammered, and its collector's other servers are not kept waiting.
        """
        line = self._lines.setdefault(server.name, _Line())
        if line.connection is not None and line.connection.closed:
            line.connection = None
        if line.connection is None:
            self._open(line, server)
        assert line.connection is not None, "opened, or an error was raised"
        return line.connection

    def abort(self) -> None:
        """Break off whatever another thread is waiting for on these connections: its call then fails, as if the server had gone.

        For a server that is alive to the operating system and dead to its clients, whom its own time-outs do not help.
        """
        for line in self._lines.values():
            if line.connection is None:
                continue
            with (
                suppress(OSError, psycopg.Error),  # closed in the meantime, which is all that is wanted
                socket.socket(fileno=os.dup(line.connection.pgconn.socket)) as copy,
            ):
                copy.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """Close all of them."""
        for line in self._lines.values():
            if line.connection is not None:
                line.connection.close()

    def _open(self, line: _Line, server: WatchedServer) -> None:
        if time.monotonic() < line.next_try_s:
            raise NotMeasuredError(line.why_not)
        try:
            line.connection = _connect(server, self._collector)
            line.pause_s = 0.0
        except psycopg.Error as error:
            line.why_not = f"{server.name} cannot be reached: {tell(error)}"
            line.pause_s = min(max(2 * line.pause_s, _FIRST_PAUSE_S), _LONGEST_PAUSE_S)
            line.next_try_s = time.monotonic() + line.pause_s
            raise NotMeasuredError(line.why_not) from error


def _connect(server: WatchedServer, collector: str) -> Connection:
    connection = connect(server.endpoint, f"collector:{collector}")
    try:
        connection.execute(_SETTINGS)
        connection.prepare_threshold = 0  # every statement is sent again and again: prepare it the first time
    except BaseException:
        connection.close()
        raise
    return connection


def tell(error: psycopg.Error) -> str:
    """Return an error of the server or of the way to it in one line."""
    return error.diag.message_primary or " ".join(str(error).split()) or type(error).__name__
