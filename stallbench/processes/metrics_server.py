"""The web server that answers Prometheus. Whoever reaches its address may ask, so that no client may take more than its share, and no page of a browser.

A page of another site can make the name of that site mean 127.0.0.1, and would then read what a server on loopback answers (DNS rebinding): the
browser sends that name as Host.
"""

from __future__ import annotations

import socket
import time
from collections.abc import Iterable
from contextlib import suppress
from ipaddress import ip_address
from socketserver import ThreadingMixIn
from typing import Any
from urllib.parse import urlsplit
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer
from wsgiref.types import StartResponse, WSGIApplication, WSGIEnvironment

from prometheus_client import CollectorRegistry, make_wsgi_app

MOST_CONNECTIONS = 20
"""At once; further ones are closed without an answer."""
LONGEST_REQUEST_S = 10.0
"""From the connection to the end of the answer."""


class MetricsServer(ThreadingMixIn, WSGIServer):
    """Answers each request from a thread of its own, few at once and none for long."""

    daemon_threads = True
    request_queue_size = MOST_CONNECTIONS
    _open: dict[Any, float]
    """By connection: when it began, on the monotonic clock."""

    def server_activate(self) -> None:
        """Listen, without connections."""
        self._open = {}
        super().server_activate()

    def verify_request(self, request: Any, client_address: Any) -> bool:
        """Return whether a connection may begin."""
        return len(self._open) < MOST_CONNECTIONS

    def process_request(self, request: Any, client_address: Any) -> None:
        """Begin a connection."""
        self._open[request] = time.monotonic()
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        """End a connection."""
        self._open.pop(request, None)
        super().shutdown_request(request)

    def service_actions(self) -> None:
        """End the connections that last too long; called at least twice a second. Their threads see an end of input, or an error."""
        for connection, began_s in self._open.copy().items():
            if time.monotonic() - began_s > LONGEST_REQUEST_S:
                with suppress(OSError):
                    connection.shutdown(socket.SHUT_RDWR)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say nothing of a client that has gone."""


class _SilentHandler(WSGIRequestHandler):
    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002  # the name that the base class has given it
        """Log no request."""


def make_metrics_server(host: str, port: int, registry: CollectorRegistry) -> MetricsServer:
    """Return a server that listens on the address. Raises `OSError` if it cannot."""
    server = MetricsServer((host, port), _SilentHandler)
    answer: WSGIApplication = make_wsgi_app(registry)
    is_loopback = ip_address(str(server.server_address[0])).is_loopback
    server.set_app(_answer_own_names(answer) if is_loopback else answer)
    return server


def _answer_own_names(answer: WSGIApplication) -> WSGIApplication:
    def answer_own(environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        if _is_own_name(environ.get("HTTP_HOST", "")):
            return answer(environ, start_response)
        start_response("403 Forbidden", [("Content-Type", "text/plain; charset=utf-8")])
        return [b"Only requests to an address or to localhost are answered here, not to the name of a host.\n"]

    return answer_own


def _is_own_name(host: str) -> bool:
    """Return whether the header Host is empty, an address or ``localhost``, with or without a port."""
    try:
        name = urlsplit(f"//{host}").hostname or ""
        return name in ("", "localhost") or bool(ip_address(name))
    except ValueError:
        return False
