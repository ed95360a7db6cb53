"""Connections that the server ends, and connections that it no longer has to give, on real servers."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from stallbench.drivers import driver_of
from stallbench.errors import NotCarriedOutError
from stallbench.records.endpoint import Endpoint
from stallbench.records.events import Event
from tests.integration.faulty_run import faulty_run

pytestmark = pytest.mark.integration

ENGINES = pytest.mark.parametrize(("engine", "queue"), [("postgres", "skip_locked"), ("mariadb", "laravel")])
ENDED = {"57P01", "AdminShutdown", "OperationalError", "2006", "2013", "1927", "1317"}
"""What a client sees: PostgreSQL's admin_shutdown or a lost connection, MariaDB's lost connections, or that its query was killed."""
FULL = {"postgres": "too many clients already", "mariadb": "Too many connections"}

OTHERS = "SELECT 1 FROM mysql.global_priv WHERE user = 'others'"


def can_connect(engine: str, endpoint: Endpoint) -> bool:
    driver = driver_of(engine)
    try:
        driver.close(driver.connect(endpoint, "test"))
    except driver.errors:
        return False
    return True


@ENGINES
def test_connections_are_ended_at_a_rate_and_clients_come_back(tmp_path: Path, engine: str, queue: str) -> None:
    with faulty_run(tmp_path, engine=engine, queue=queue, work="20ms") as run:
        run.wait_until_jobs_complete(5)
        began_ns = time.time_ns()
        run.strike("terminate_backends", every="200ms", of="workers")
        run.go_on_for(1.5)
        record = run.end_faults()
        assert record["held"] is True
        assert sum(record["evidence"]["terminated"].values()) >= 4
        assert set(record["evidence"]["terminated"]) <= {"worker-1", "worker-2"}
        errors = run.events(Event.ERROR, began_ns)
        assert {row["process"] for row in errors} <= {"worker-1", "worker-2"}
        assert {row["detail"].split()[0] for row in errors} & ENDED
        run.wait_until_jobs_complete(5)
        assert not run.processes.ended_uninvited()


def test_where_nobody_is_connected_nobody_can_be_ended(tmp_path: Path) -> None:
    with faulty_run(tmp_path) as run:
        run.load.stop()
        with pytest.raises(NotCarriedOutError, match="no connection of clients was found on primary"):
            run.strike("terminate_backends")


@ENGINES
def test_who_comes_when_all_connections_are_taken_is_refused_until_they_are_given_back(
    tmp_path: Path, engine: str, queue: str
) -> None:
    with faulty_run(tmp_path, engine=engine, queue=queue, settings="{ max_connections = 25 }") as run:
        run.wait_until_jobs_complete(5)
        record = run.strike("idle_connections")
        assert 15 <= record["evidence"]["connections"] <= 25
        assert FULL[engine] in record["evidence"]["refusal"]
        run.wait_until_jobs_complete(5)  # who has a connection goes on
        began_ns = time.time_ns()
        run.strike("down")
        run.go_on_for(0.5)
        run.cluster.toxiproxy.set_enabled("primary", True)
        run.wait_until(lambda: any(FULL[engine] in row["detail"] for row in run.events(Event.ERROR, began_ns)), FULL[engine])
        run.end_faults()
        run.wait_until_jobs_complete(5)
        direct = run.cluster.server("primary").direct
        driver_of(engine).close(driver_of(engine).connect(direct, "test"))


def test_a_number_of_idle_connections_leaves_the_others(tmp_path: Path) -> None:
    with faulty_run(tmp_path) as run:
        record = run.strike("idle_connections", count=5)
        assert record["evidence"] == {"connections": 5, "refusal": None}
        run.wait_until_jobs_complete(5)
        assert run.end_faults()["held"] is True


@ENGINES
def test_others_that_are_limited_leave_room_for_clients_that_come_back(tmp_path: Path, engine: str, queue: str) -> None:
    with faulty_run(tmp_path, engine=engine, queue=queue, settings="{ max_connections = 30 }") as run:
        run.wait_until_jobs_complete(5)
        record = run.strike("idle_connections", limit=8)
        assert record["evidence"]["connections"] == 8
        began_ns = time.time_ns()
        run.strike("terminate_backends", every="200ms", of="workers")
        run.wait_until(lambda: len(run.events(Event.ERROR, began_ns)) >= 4, "four ended connections")
        run.faults.end_all()
        assert not [row for row in run.events(Event.ERROR, began_ns) if FULL[engine] in row["detail"]]
        assert all(record["held"] for record in run.faults.records())
        run.wait_until_jobs_complete(5)
        direct = run.cluster.server("primary").direct
        connection = driver_of(engine).connect(direct, "test")
        with connection.cursor() as cursor:
            cursor.execute("SELECT 1 FROM pg_roles WHERE rolname = 'others'" if engine == "postgres" else OTHERS)
            assert not cursor.fetchall(), "the role is gone, too"
        driver_of(engine).close(connection)


@ENGINES
def test_leaked_connections_may_be_ended_by_a_timeout(tmp_path: Path, engine: str, queue: str) -> None:
    timeout = "idle_session_timeout = '4s'" if engine == "postgres" else "wait_timeout = 4"
    with faulty_run(tmp_path, engine=engine, queue=queue, settings=f"{{ max_connections = 25, {timeout} }}") as run:
        run.strike("idle_connections", may_be_ended=True)
        direct = run.cluster.server("primary").direct
        run.wait_until(lambda: can_connect(engine, direct), "a connection that has become free")
        record = run.end_faults()
        assert record["held"] is True
        assert record["evidence"]["ended"] > 0
