"""Metrics for Prometheus among clients that never end their request, and pages of other sites in a browser on the same machine."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import ExitStack
from http.client import HTTPConnection

import pytest

from stallbench.processes.exposure import Exposure, serve
from stallbench.processes.sample_figures import SampleFigures
from tests.waiting import wait_for


@pytest.fixture
def port() -> int:
    return serve(Exposure(), SampleFigures(5.0))["metrics_port"]


@pytest.fixture
def slow_clients(port: int) -> Iterator[list[socket.socket]]:
    """More clients than are allowed, which do not end their request."""
    with ExitStack() as stack:
        clients = [stack.enter_context(socket.create_connection(("127.0.0.1", port), 10)) for _ in range(30)]
        for client in clients:
            client.sendall(b"GET /metrics HTTP/1.1\r\nX: ")
        yield clients


def ask(port: int, host: str) -> int:
    connection = HTTPConnection("127.0.0.1", port, timeout=10)
    try:
        connection.request("GET", "/metrics", headers={"Host": host})
        return connection.getresponse().status
    finally:
        connection.close()


@pytest.mark.parametrize(
    "host", ["evil.test", "evil.test:{}", "127.0.0.1.evil.test", "localhost.evil.test:80", "evil.test@127.0.0.1x", "[::1"]
)
def test_a_page_of_another_site_reads_no_metrics(port: int, host: str) -> None:
    assert ask(port, host.format(port)) == 403


@pytest.mark.parametrize("host", ["127.0.0.1:{}", "localhost:{}", "localhost", "[::1]:{}", "10.1.2.3"])
def test_an_address_is_answered(port: int, host: str) -> None:
    assert ask(port, host.format(port)) == 200


def is_closed(client: socket.socket) -> bool:
    client.settimeout(0.01)
    try:
        return client.recv(1) == b""
    except TimeoutError:
        return False
    except OSError:
        return True


def test_slow_clients_take_few_connections_and_only_for_a_time(
    monkeypatch: pytest.MonkeyPatch, port: int, slow_clients: list[socket.socket]
) -> None:
    wait_for(lambda: sum(is_closed(one) for one in slow_clients) == 10, "the end of those that are too many")
    monkeypatch.setattr("stallbench.processes.metrics_server.LONGEST_REQUEST_S", 0.1)
    wait_for(lambda: all(is_closed(one) for one in slow_clients), "the end of all")
    monkeypatch.undo()
    assert ask(port, "127.0.0.1") == 200
