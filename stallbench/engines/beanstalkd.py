"""Beanstalkd, through greenstalk."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import TypeVar

import greenstalk

from stallbench.engines.driver import CONNECT_TIMEOUT_S, SAMPLING_TIMEOUT_S, Driver
from stallbench.records.endpoint import Endpoint

_SENT_AHEAD = 200
"""Commands that are sent before the first answer is read; their answers together fit any socket's buffer, so that neither end waits."""
_WORDS = {error: status.decode() for status, error in greenstalk.ERROR_RESPONSES.items()}

AnswerT = TypeVar("AnswerT")


class ConnectionLostError(Exception):
    """The connection could not be made, broke off or came to its time limit; the client has closed it."""


class BeanstalkdClient(greenstalk.Client[str]):
    """greenstalk's client, with every way in which a connection breaks told alike, and with many commands sent at once.

    greenstalk lets the socket's own errors through, among which a caller could not tell a full disk from a lost server, and an answer that
    breaks off in its middle fails an assertion.
    """

    def __init__(self, connected: socket.socket) -> None:
        """Speak through a socket that is connected."""
        with self._told_as_lost():
            super().__init__(connected)

    def put_all(self, bodies: Sequence[str], ttr_s: int) -> list[int]:
        """Insert jobs of the default priority and return their ids.

        Raises the first error with which the server refused one; the others are inserted all the same, for Beanstalkd has no transactions.
        """
        buffers = [body.encode() for body in bodies]
        commands = [b"put %d 0 %d %d\r\n%b\r\n" % (greenstalk.DEFAULT_PRIORITY, ttr_s, len(buf), buf) for buf in buffers]
        answers = list(self._send_ahead(commands, lambda: int(self._read_answer(b"INSERTED")[0])))
        refused = next((answer for answer in answers if isinstance(answer, greenstalk.Error)), None)
        if refused is not None:
            raise refused
        return [answer for answer in answers if isinstance(answer, int)]

    def stats_of(self, ids: Sequence[int]) -> Iterator[greenstalk.StatsJob]:
        """Go through the jobs of ``ids`` that there still are."""
        for answer in self._send_ahead([b"stats-job %d\r\n" % job_id for job_id in ids], self._read_stats):
            if not isinstance(answer, greenstalk.Error):
                yield answer
            elif not isinstance(answer, greenstalk.NotFoundError):
                raise answer

    def _send_ahead(self, commands: Sequence[bytes], read: Callable[[], AnswerT]) -> Iterator[AnswerT | greenstalk.Error]:
        """Send ``commands`` and yield what ``read`` makes of each one's answer, or the error with which the server refused it."""
        for begin in range(0, len(commands), _SENT_AHEAD):
            sent = commands[begin : begin + _SENT_AHEAD]
            with self._told_as_lost():
                self._sock.sendall(b"".join(sent))
            # All are read before any is handed over: whoever breaks off leaves no answer behind, to be taken for another's.
            yield from [self._read_or_refused(read) for _ in sent]

    def _read_or_refused(self, read: Callable[[], AnswerT]) -> AnswerT | greenstalk.Error:
        try:
            return read()
        except greenstalk.Error as refused:
            return refused

    def _read_answer(self, expected: bytes) -> list[bytes]:
        with self._told_as_lost():
            return greenstalk._parse_response(self._reader.readline(), expected)

    def _read_stats(self) -> greenstalk.StatsJob:
        size = int(self._read_answer(b"OK")[0])
        stats: greenstalk.StatsJob = greenstalk._parse_stats(self._read_chunk(size))  # type: ignore[assignment]
        return stats

    def _send_cmd(self, cmd: bytes, expected: bytes) -> list[bytes]:
        with self._told_as_lost():
            return super()._send_cmd(cmd, expected)

    def _read_chunk(self, size: int) -> bytes:
        with self._told_as_lost():
            return super()._read_chunk(size)

    @contextmanager
    def _told_as_lost(self) -> Iterator[None]:
        """Make one error of all that a broken socket leads to: its own, an answer without its end, a file that was closed meanwhile."""
        try:
            yield
        except (OSError, AssertionError, ValueError) as error:
            with suppress(OSError):
                self.close()
            raise ConnectionLostError(str(error) or "the connection broke off in the middle of an answer") from error


class BeanstalkdDriver(Driver):
    """The protocol knows neither passwords nor the names of clients."""

    errors = (greenstalk.Error, ConnectionLostError)

    def connect(self, endpoint: Endpoint, name: str) -> BeanstalkdClient:
        """Connect; raises `ConnectionLostError` when the server cannot be reached."""
        return self._connect(endpoint, None)

    def connect_for_sampling(self, endpoint: Endpoint, name: str) -> BeanstalkdClient:
        """Connect with a time limit on every answer."""
        return self._connect(endpoint, SAMPLING_TIMEOUT_S)

    def is_closed(self, connection: BeanstalkdClient) -> bool:
        """Whether its socket is closed, which the client sees to when it breaks."""
        return connection._sock.fileno() == -1

    def abort(self, connection: BeanstalkdClient) -> None:
        """Shut its socket down."""
        with suppress(OSError):
            connection._sock.shutdown(socket.SHUT_RDWR)

    def console(self, endpoint: Endpoint) -> str:
        """Return a call of telnet, which is all that its protocol needs."""
        return f"telnet {endpoint.host} {endpoint.port}"

    def describe(self, error: Exception) -> str:
        """Return the server's own word for it, if it is the server who refused."""
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
