"""A relay before a server, by which a test cuts the connections of any client, in any language."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

from stallbench.records.endpoint import Endpoint

_START_S = 60.0


class Relay:
    """Forwards each connection to a server. Made by `relay_before`."""

    def __init__(self, server: Endpoint) -> None:
        """Listen on a free port of the loopback interface."""
        self._server = server
        self._loop = asyncio.new_event_loop()
        self._writers: set[asyncio.StreamWriter] = set()
        self._unanswered: bytes | None = None
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        self._listener = asyncio.run_coroutine_threadsafe(asyncio.start_server(self._forward, "127.0.0.1", 0), self._loop).result(
            _START_S
        )
        self.endpoint = server.model_copy(update={"host": "127.0.0.1", "port": self._listener.sockets[0].getsockname()[1]})
        """The server's endpoint through the relay."""

    def cut(self) -> None:
        """Break every connection, and refuse new ones."""
        asyncio.run_coroutine_threadsafe(self._cut(), self._loop).result(_START_S)

    def lose_answer(self, part: bytes) -> None:
        """Let the next request that contains ``part`` reach the server, and break its connection instead of forwarding the answer."""
        self._unanswered = part

    def close(self) -> None:
        """Cut, and end the thread."""
        self.cut()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(_START_S)

    async def _cut(self) -> None:
        self._listener.close()
        for writer in self._writers:
            writer.transport.abort()

    async def _forward(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        server_reader, server_writer = await asyncio.open_connection(self._server.host, self._server.port)
        self._writers |= {writer, server_writer}
        loses_answer = asyncio.Event()

        def examine_request(received: bytes) -> bool:
            if self._unanswered and self._unanswered in received:
                self._unanswered = None
                loses_answer.set()
            return True

        await asyncio.gather(
            _copy(reader, server_writer, examine_request), _copy(server_reader, writer, lambda _: not loses_answer.is_set())
        )


@contextmanager
def relay_before(server: Endpoint) -> Iterator[Relay]:
    """Relay to the server for as long as the block lasts."""
    relay = Relay(server)
    try:
        yield relay
    finally:
        relay.close()


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, may_pass: Callable[[bytes], bool]) -> None:
    """Copy until one of the two ends, or until ``may_pass`` refuses what was received."""
    with suppress(OSError):
        while (received := await reader.read(65_536)) and may_pass(received):
            writer.write(received)
            await writer.drain()
    writer.close()
