"""Beanstalkd, through greenstalk."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import TypeVar

import greenstalk

from stallbench.engines.driver import CONNECT_TIMEOUT_S, SAMPLING_TIMEOUT_S, Driver
from stallbench.records.endpoint import Endpoint

_PIPELINED = 200
"""Commands that are sent before the first answer is read. Their answers fit into any socket's buffer, so that neither side blocks."""
_WORDS = {error: status.decode() for status, error in greenstalk.ERROR_RESPONSES.items()}

AnswerT = TypeVar("AnswerT")


class ConnectionLostError(Exception):
    """The connection could not be opened, was lost, or reached its time limit; the client has closed it."""


class BeanstalkdClient(greenstalk.Client[str]):
    """greenstalk's client, with one error for all causes of a lost connection, and with pipelined commands.

    greenstalk passes the socket's `OSError` on, which a caller cannot distinguish from that of a full disk. An answer that ends in the
    middle fails one of its assertions.
    """

    def __init__(self, connected: socket.socket) -> None:
        """Use a connected socket."""
        with self._as_connection_lost():
            super().__init__(connected)

    def put_all(self, bodies: Sequence[str], ttr_s: int) -> list[int]:
        """Insert jobs of the default priority and return their ids.

        Raises the first error by which the server refused a job. The other jobs are inserted all the same: Beanstalkd has no transactions.
        """
        buffers = [body.encode() for body in bodies]
        commands = [b"put %d 0 %d %d\r\n%b\r\n" % (greenstalk.DEFAULT_PRIORITY, ttr_s, len(buf), buf) for buf in buffers]
        answers = list(self._pipeline(commands, lambda: int(self._read_answer(b"INSERTED")[0])))
        refused = next((answer for answer in answers if isinstance(answer, greenstalk.Error)), None)
        if refused is not None:
            raise refused
        return [answer for answer in answers if isinstance(answer, int)]

    def stats_of(self, ids: Sequence[int]) -> Iterator[greenstalk.StatsJob]:
        """Yield the statistics of those jobs of ``ids`` that still exist."""
        for answer in self._pipeline([b"stats-job %d\r\n" % job_id for job_id in ids], self._read_stats):
            if not isinstance(answer, greenstalk.Error):
                yield answer
            elif not isinstance(answer, greenstalk.NotFoundError):
                raise answer

    def _pipeline(self, commands: Sequence[bytes], read: Callable[[], AnswerT]) -> Iterator[AnswerT | greenstalk.Error]:
        """Send ``commands`` and yield the result of ``read`` for each answer, or the error by which the server refused the command."""
        for begin in range(0, len(commands), _PIPELINED):
            sent = commands[begin : begin + _PIPELINED]
            with self._as_connection_lost():
                self._sock.sendall(b"".join(sent))
            # Read all answers before yielding one: a caller that stops early leaves no answer to be mistaken for another's.
            yield from [self._read_or_refused(read) for _ in sent]

    def _read_or_refused(self, read: Callable[[], AnswerT]) -> AnswerT | greenstalk.Error:
        try:
            return read()
        except greenstalk.Error as refused:
            return refused

    def _read_answer(self, expected: bytes) -> list[bytes]:
        with self._as_connection_lost():
            return greenstalk._parse_response(self._reader.readline(), expected)

    def _read_stats(self) -> greenstalk.StatsJob:
        size = int(self._read_answer(b"OK")[0])
        stats: greenstalk.StatsJob = greenstalk._parse_stats(self._read_chunk(size))  # type: ignore[assignment]
        return stats

    def _send_cmd(self, cmd: bytes, expected: bytes) -> list[bytes]:
        with self._as_connection_lost():
            return super()._send_cmd(cmd, expected)

    def _read_chunk(self, size: int) -> bytes:
        with self._as_connection_lost():
            return super()._read_chunk(size)

    @contextmanager
    def _as_connection_lost(self) -> Iterator[None]:
        """Turn all errors of a broken socket into one: its own, that of a truncated answer, and that of a closed file."""
        try:
            yield
        except (OSError, AssertionError, ValueError) as error:
            with suppress(OSError):
                self.close()
            raise ConnectionLostError(str(error) or "the connection was lost in the middle of an answer") from error


class BeanstalkdDriver(Driver):
    """The protocol has neither passwords nor names of clients."""

    errors = (greenstalk.Error, ConnectionLostError)

    def connect(self, endpoint: Endpoint, name: str) -> BeanstalkdClient:
        """Connect; raises `ConnectionLostError` when the server cannot be reached."""
        return self._connect(endpoint, None)

    def connect_for_sampling(self, endpoint: Endpoint, name: str) -> BeanstalkdClient:
        """Connect with a time limit for every answer."""
        return self._connect(endpoint, SAMPLING_TIMEOUT_S)

    def is_closed(self, connection: BeanstalkdClient) -> bool:
        """Whether its socket is closed; the client closes it when the connection is lost."""
        return connection._sock.fileno() == -1

    def abort(self, connection: BeanstalkdClient) -> None:
        """Shut its socket down."""
        with suppress(OSError):
            connection._sock.shutdown(socket.SHUT_RDWR)

    def console(self, endpoint: Endpoint) -> str:
        """Return a command with telnet, which is sufficient for its protocol."""
        return f"telnet {endpoint.host} {endpoint.port}"

    def describe(self, error: Exception) -> str:
        """Return the server's own word for the error, if the server refused the command."""
        word = _WORDS.get(type(error))
        return f"the server answered {word}" if word else super().describe(error)

    def _connect(self, endpoint: Endpoint, timeout_s: float | None) -> BeanstalkdClient:
        try:
            connected = socket.create_connection((endpoint.host, endpoint.port), CONNECT_TIMEOUT_S)
        except OSError as error:
            raise ConnectionLostError(str(error)) from error
        connected.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        connected.settimeout(timeout_s)
        return BeanstalkdClient(connected)


DRIVER = BeanstalkdDriver()
