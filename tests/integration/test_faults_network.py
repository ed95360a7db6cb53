"""Network faults on real servers behind the real Toxiproxy: what clients see while a fault is active, and that nothing is left."""

from __future__ import annotations

import socket
import struct
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from threading import Semaphore

import pytest

from stallbench.engines.postgres.driver import connect
from stallbench.errors import NotCarriedOutError
from stallbench.injection.faults import find_faults
from stallbench.injection.faults.network import Toxic
from stallbench.records.events import Event
from tests.integration.faulty_run import FaultyRun
from tests.waiting import PATIENCE_S

pytestmark = [
    pytest.mark.integration,
    pytest.mark.parametrize("run_of_module", [{"replicas": 1}], ids=["one replica"], indirect=True),
]

SSL_REQUEST = struct.pack("!ii", 8, 80_877_103)
"""PostgreSQL answers it with one byte."""
TOXICS = [name for name, kind in find_faults().items() if issubclass(kind, Toxic)]


def is_in_order(*times_ns: int | None) -> bool:
    known_ns = [t_ns for t_ns in times_ns if t_ns is not None]
    return len(known_ns) == len(times_ns) and known_ns == sorted(known_ns)


@pytest.mark.parametrize("kind", [*TOXICS, "down"])
@pytest.mark.parametrize("on", ["primary", "replica-1", "replication-replica-1"])
def test_a_fault_is_active_until_it_is_ended_and_then_jobs_complete_again(run: FaultyRun, kind: str, on: str) -> None:
    record = run.inject(kind, on)
    assert is_in_order(record.start_ns, record.verified_ns)
    assert bool(run.cluster.toxiproxy.toxics(on)) == (kind != "down")
    record = run.end_faults()
    assert record.active_to_end is True
    assert is_in_order(record.verified_ns, record.end_ns, record.verified_gone_ns)
    assert run.cluster.toxiproxy.toxics(on) == {}
    assert run.cluster.toxiproxy.is_enabled(on)
    run.wait_until_jobs_complete(5)


def test_latency_is_added_to_every_call(run: FaultyRun) -> None:
    run.wait_until_jobs_complete(5)
    record = run.inject("latency", latency="80ms")

    def times_ms() -> list[float]:
        rows = run.events(Event.COMPLETED, record.verified_ns or 0)
        # The first of each worker may have begun before; the next cannot have.
        first = {row["process"]: row for row in reversed(rows)}
        return [int(row["duration_ns"]) / 1e6 for row in rows if row is not first[row["process"]]]

    run.wait_until(lambda: len(times_ms()) >= 5, "5 completions")
    fastest_ms = min(times_ms())
    run.end_faults()
    assert fastest_ms >= 80


def test_toxicity_affects_a_share_of_the_connections(run: FaultyRun) -> None:
    run.inject("latency", latency="1ms", toxicity=0.5)
    (toxic,) = run.cluster.toxiproxy.toxics("primary").values()
    assert toxic.toxicity == 0.5
    run.end_faults()


def test_down_refuses_clients_and_they_reconnect(run: FaultyRun) -> None:
    began_ns = time.time_ns()
    run.inject("down")
    workers = {process.name for process in run.load.running("worker")}
    run.wait_until(
        lambda: workers <= {row["process"] for row in run.events(Event.ERROR, began_ns)}, "each worker's lost connection"
    )
    before = len(run.events(Event.COMPLETED))
    time.sleep(0.5)
    assert len(run.events(Event.COMPLETED)) == before
    run.end_faults()
    run.wait_until_jobs_complete()


def test_a_partition_is_silent_while_it_lasts_and_closes_the_connections_when_it_ends(run: FaultyRun) -> None:
    """Toxiproxy drops what was sent meanwhile, so it cannot go on with a connection."""
    address = run.cluster.server("primary").proxied
    with socket.create_connection((address.host, address.port)) as connection:
        run.inject("timeout")
        connection.sendall(SSL_REQUEST)
        connection.settimeout(0.5)
        with pytest.raises(TimeoutError):
            connection.recv(1)
        run.end_faults()
        connection.settimeout(PATIENCE_S)
        assert connection.recv(1) == b""


@pytest.mark.parametrize(
    ("stream", "is_received"), [({}, False), ({"stream": "downstream"}, True), ({"stream": "upstream"}, False)]
)
def test_a_statement_does_not_reach_the_server_in_a_partition_unless_only_answers_are_dropped(
    run: FaultyRun, stream: dict[str, str], is_received: bool
) -> None:
    primary = run.cluster.server("primary")
    with closing(connect(primary.proxied, "application")) as client, connect(primary.direct, "test") as direct:
        pid = client.info.backend_pid
        run.inject("timeout", **stream)
        client.pgconn.send_query(b"CREATE TABLE sent_in_a_partition ()")
        client.pgconn.flush()
        run.end_faults()

        def has_ended() -> bool:
            return not direct.execute("SELECT FROM pg_stat_activity WHERE pid = %s", (pid,)).fetchall()

        run.wait_until(has_ended, "the end of the session that the partition cut")
        assert len(direct.execute("SELECT FROM pg_tables WHERE tablename = 'sent_in_a_partition'").fetchall()) == is_received
        direct.execute("DROP TABLE IF EXISTS sent_in_a_partition")


@pytest.mark.parametrize("removed", ["upstream", "downstream"])
def test_a_partition_of_which_one_direction_is_open_again_is_noticed(run: FaultyRun, removed: str) -> None:
    record = run.inject("timeout")
    run.cluster.toxiproxy.remove_toxic("primary", f"{record.name}-{removed}")
    record = run.end_faults()
    assert record.active_to_end is False
    assert run.cluster.toxiproxy.toxics("primary") == {}


def test_a_client_that_reconnects_when_a_partition_ends_is_not_cut_again(run: FaultyRun) -> None:
    address = run.cluster.server("primary").proxied

    def reconnect() -> bytes:
        with socket.create_connection((address.host, address.port), timeout=PATIENCE_S) as cut:
            waiting.release()
            cut.recv(1)
        with socket.create_connection((address.host, address.port), timeout=PATIENCE_S) as connection:
            connection.sendall(SSL_REQUEST)
            return connection.recv(1)

    clients, waiting = 8, Semaphore(0)
    run.inject("timeout")
    with ThreadPoolExecutor(clients) as threads:
        answers = [threads.submit(reconnect) for _ in range(clients)]
        for _ in range(clients):
            waiting.acquire()
        run.end_faults()
        assert all(answer.result() in (b"S", b"N") for answer in answers), [answer.result() for answer in answers]


def test_a_toxic_that_was_removed_is_noticed(run: FaultyRun) -> None:
    record = run.inject("latency")
    run.cluster.toxiproxy.remove_toxic("primary", record.name)
    record = run.end_faults()
    assert record.active_to_end is False
    assert record.why_ended == "Toxiproxy no longer has it"


def test_a_fault_that_cannot_be_injected_ends_the_run(run: FaultyRun) -> None:
    with pytest.raises(
        NotCarriedOutError, match=r"fault latency-\d+ on nowhere in phase 'only' could not be started: there is no proxy"
    ):
        run.inject("latency", on="nowhere")
    run.injections.undo_all()
