"""A server of MariaDB's or MySQL's protocol may ask for the password itself: it is not sent where anybody on the way can read it."""

from __future__ import annotations

import socket
import struct
import threading
from collections.abc import Callable, Iterator

import pymysql
import pytest

from stallbench.engines.innodb.driver import DRIVER
from stallbench.observe.innodb.session import InnoDBSession
from stallbench.observe.observer import ServerGoneError
from stallbench.records.endpoint import Endpoint

PASSWORD = "correct-horse"
_PLUGIN_AUTH, _SECURE_CONNECTION, _PROTOCOL_41 = 1 << 19, 1 << 15, 1 << 9


class AskingServer:
    """Not a real server, none of which asks for this without its operator's consent: it greets, asks by one method, and keeps what it is sent."""

    def __init__(self, method: bytes, question: bytes) -> None:
        self.method, self.question = method, question
        self.received = b""
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        self.thread = threading.Thread(target=self._serve)
        self.thread.start()

    def _serve(self) -> None:
        client, _ = self.listener.accept()
        with client:
            flags = _PLUGIN_AUTH | _SECURE_CONNECTION | _PROTOCOL_41
            greeting = b"\x0a8.0.40\0" + struct.pack("<I", 1) + b"a" * 8 + b"\0" + struct.pack("<H", flags & 0xFFFF)
            greeting += b"\x2d" + struct.pack("<HH", 2, flags >> 16) + b"\x15" + b"\0" * 10 + b"b" * 12 + b"\0"
            greeting += b"mysql_native_password\0"
            self._send(client, 0, greeting)
            self._read(client)
            self._send(client, 2, b"\xfe" + self.method + b"\0" + self.question)
            self.received = self._read(client)

    def _send(self, client: socket.socket, number: int, payload: bytes) -> None:
        client.sendall(struct.pack("<I", len(payload))[:3] + bytes([number]) + payload)

    def _read(self, client: socket.socket) -> bytes:
        head = client.recv(4, socket.MSG_WAITALL)
        return client.recv(int.from_bytes(head[:3], "little"), socket.MSG_WAITALL) if head else b""

    def close(self) -> None:
        self.listener.close()
        self.thread.join(10)


@pytest.fixture(params=[(b"mysql_clear_password", b""), (b"dialog", b"\x04Password: ")], ids=["mysql_clear_password", "dialog"])
def server(request: pytest.FixtureRequest) -> Iterator[AskingServer]:
    asking = AskingServer(*request.param)
    yield asking
    asking.close()


@pytest.mark.parametrize("connect", [lambda address: DRIVER.connect(address, "test"), InnoDBSession], ids=["run", "observe"])
def test_a_server_that_asks_for_the_password_does_not_get_it_in_clear_text(
    server: AskingServer, connect: Callable[[Endpoint], object]
) -> None:
    address = Endpoint(engine="mysql", host="127.0.0.1", port=server.port, database="app", user="reader", password=PASSWORD)
    with pytest.raises((pymysql.OperationalError, ServerGoneError), match=r"in clear text.*add \?ssl_mode=required"):
        connect(address)
    server.thread.join(10)
    assert PASSWORD.encode() not in server.received


@pytest.mark.parametrize(
    "greeting",
    [
        b"\x0a",
        b"\x0a5.5.5\0" + b"a" * 15,
        b"\x0a8.0\0" + b"a" * 13 + b"\xff\xff\x2d\x02\0\xff\xff\x15" + b"\0" * 10 + b"b" * 12 + b"\0\xff\0",
    ],
    ids=["a byte", "cut off", "no text"],
)
def test_what_does_not_speak_the_protocol_is_one_message(greeting: bytes) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            client, _ = listener.accept()
            with client:
                client.sendall(struct.pack("<I", len(greeting))[:3] + b"\0" + greeting)
                client.recv(4096)

        thread = threading.Thread(target=serve)
        thread.start()
        address = Endpoint(engine="mysql", host="127.0.0.1", port=listener.getsockname()[1], database="app", user="reader")
        with pytest.raises(ServerGoneError, match="what answers does not speak the protocol of MariaDB or MySQL"):
            InnoDBSession(address)
        thread.join()
