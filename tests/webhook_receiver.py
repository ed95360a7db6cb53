"""A receiver of webhooks on this machine, which keeps what is posted to it."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from queue import Queue
from typing import Any, ClassVar

from tests.waiting import PATIENCE_S


class Receiver:
    def __init__(self) -> None:
        self.url = ""
        """With a secret in its path."""
        self.documents: Queue[dict[str, Any]] = Queue()
        self.headers: list[dict[str, str]] = []
        self.status = 204
        """Of every answer; of a redirection, to the receiver itself."""

    def take(self, within_s: float = PATIENCE_S) -> dict[str, Any]:
        """Return the next document."""
        return self.documents.get(timeout=within_s)


class _Handler(BaseHTTPRequestHandler):
    receiver: ClassVar[Receiver]

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.receiver.headers.append(dict(self.headers))
        self.receiver.documents.put(json.loads(body))
        self.send_response(self.receiver.status)
        if self.receiver.status // 100 == 3:
            self.send_header("Location", self.receiver.url)
        self.end_headers()

    def log_message(self, *arguments: Any) -> None: ...


@contextmanager
def webhook_receiver() -> Iterator[Receiver]:
    receiver = Receiver()
    server = ThreadingHTTPServer(("127.0.0.1", 0), type("Handler", (_Handler,), {"receiver": receiver}))
    receiver.url = f"http://127.0.0.1:{server.server_port}/services/the-secret"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield receiver
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
