"""A relay before a server, by which a test cuts the connections of any client, in any language, or says that the server cannot encrypt them."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

from stallbench.records.endpoint import Endpoint

_START_S = 60.0
_SSL_REQUEST = b"\x00\x00\x00\x08\x04\xd2\x16\x2f"
"""By which a client of PostgreSQL asks for encryption; the answer ``N`` means that there is none."""


class Relay:
    """Forwards each connection to a server. Made by `relay_before`."""

    def __init__(self, server: Endpoint) -> None:
        """Listen on a free port of the loopback interface."""
        self._server = server
        self._loop = asyncio.new_event_loop()
        self._writers: set[asyncio.StreamWriter] = set()
        self._unanswered: bytes | None = None
        self._refuses_encryption = False
        self.heard: list[bytes] = []
        """What clients have sent since `refuse_encryption`, beside the request for it."""
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

    def refuse_encryption(self) -> None:
        """Answer each new client of PostgreSQL that the server has no encryption, and forward what it then sends."""
        self._refuses_encryption = True

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
        loses_answer, is_clear = asyncio.Event(), self._refuses_encryption

        def examine_request(received: bytes) -> bool:
            if self._unanswered and self._unanswered in received:
                self._unanswered = None
                loses_answer.set()
            if is_clear:
                self.heard.append(received)
            return True

        if is_clear:
            with suppress(OSError, asyncio.IncompleteReadError):
                begun = await reader.readexactly(len(_SSL_REQUEST))
                if begun == _SSL_REQUEST:
                    writer.write(b"N")
                elif examine_request(begun):
                    server_writer.write(begun)
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
