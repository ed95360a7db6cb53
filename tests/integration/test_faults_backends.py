"""Connections that the server ends, and connections that it refuses because there are too many, on real servers."""

from __future__ import annotations

import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from stallbench.engines import driver_of
from stallbench.engines.postgres.driver import connect
from stallbench.errors import NotCarriedOutError
from stallbench.records.endpoint import Endpoint
from stallbench.records.events import Event
from tests.integration.faulty_run import FaultyRun, faulty_run

pytestmark = pytest.mark.integration

ENGINES = pytest.mark.parametrize(
    ("engine", "queue"), [("postgres", "skip_locked"), pytest.param("mariadb", "laravel", marks=pytest.mark.long)]
)
"""That MariaDB refuses clients and that they connect again is seen in the shared run."""
SETTINGS = {"settings": "{ max_connections = 25 }", "work": "20ms"}
RUNS = [{"engine": "postgres", "queue": "skip_locked", **SETTINGS}, {"engine": "mariadb", "queue": "laravel", **SETTINGS}]
SHARED = pytest.mark.parametrize("run_of_module", RUNS, ids=["postgres", "mariadb"], indirect=True)
SHARED_LONG_ON_MARIADB = pytest.mark.parametrize(
    "run_of_module", [RUNS[0], pytest.param(RUNS[1], marks=pytest.mark.long)], ids=["postgres", "mariadb"], indirect=True
)
"""On MariaDB only by `make test-long`: there `make test` sees that clients are refused, and that those of other databases are left alone."""
SHARED_POSTGRES = pytest.mark.parametrize("run_of_module", RUNS[:1], ids=["postgres"], indirect=True)
ENDED = {"57P01", "AdminShutdown", "OperationalError", "2006", "2013", "1927", "1317"}
"""What a client sees: PostgreSQL's admin_shutdown or a lost connection, MariaDB's lost connections, or that its query was killed."""
FULL = {"postgres": "too many clients already", "mariadb": "Too many connections"}

SESSIONS = {
    "postgres": "SELECT count(*) FROM pg_stat_activity WHERE application_name ~ '^stallbench:({names})-'",
    "mariadb": "SELECT count(*) FROM information_schema.processlist WHERE user REGEXP '^({names})-'",
}
OF_CLIENTS, OF_THE_FAULT = "worker|producer", "idle_connections"
OTHERS = "SELECT 1 FROM mysql.global_priv WHERE user = 'others'"


def count_sessions(engine: str, connection: Any, names: str) -> int:
    with connection.cursor() as cursor:
        cursor.execute(SESSIONS[engine].format(names=names))
        return int(cursor.fetchone()[0])


def has_room_for_one_whose_place_was(engine: str, endpoint: Endpoint, names: str, of: int) -> bool:
    """Whether a connection can be opened, and the session that has ended is one of these."""
    driver = driver_of(engine)
    try:
        connection = driver.connect(endpoint, "test")
    except driver.errors:
        return False
    try:
        return count_sessions(engine, connection, names) < of
    finally:
        driver.close(connection)


def test_without_a_connected_client_it_cannot_be_verified(tmp_path: Path) -> None:
    with faulty_run(tmp_path, workers=1) as run:
        run.load.stop()
        with driver_of("postgres").connect(run.cluster.server("primary").direct, "test") as watch:
            run.wait_until(lambda: count_sessions("postgres", watch, OF_CLIENTS) == 0, "the end of the clients' sessions")
        with pytest.raises(NotCarriedOutError, match="no connection of clients was found on primary"):
            run.inject("terminate_backends")


@ENGINES
def test_an_application_that_connects_for_each_call_is_refused_while_workers_go_on(
    tmp_path: Path, engine: str, queue: str
) -> None:
    settings, producers = "{ max_connections = 25 }", "connection_per_call = true"
    with faulty_run(tmp_path, engine=engine, queue=queue, settings=settings, producers=producers) as run:
        run.wait_until_jobs_complete(5)
        run.inject("idle_connections")
        began_ns = time.time_ns()
        run.wait_until(lambda: len(run.events(Event.REFUSED, began_ns)) >= 20, "refused enqueues")
        assert all(FULL[engine] in row["detail"] and row["intended_ns"] for row in run.events(Event.REFUSED, began_ns))
        assert {row["process"] for row in run.events(Event.ERROR, began_ns)} == {"producer-1"}, "workers keep their connections"
        run.end_faults()
        run.wait_until_jobs_complete(5)
        assert not run.processes.exited_unexpectedly()


@ENGINES
def test_leaked_connections_may_be_ended_by_a_timeout(tmp_path: Path, engine: str, queue: str) -> None:
    timeout = "idle_session_timeout = '5s'" if engine == "postgres" else "wait_timeout = 5"
    settings = f"{{ max_connections = 25, {timeout} }}"
    with faulty_run(tmp_path, engine=engine, queue=queue, settings=settings) as run, ExitStack() as stack:
        # A slow machine, too, is to open the last of the fault's before the first is ended: most places are taken already.
        for _ in range(16):
            other = driver_of(engine).connect(run.cluster.server("primary").direct, "other")
            stack.callback(driver_of(engine).close, other)
            with other.cursor() as cursor:
                cursor.execute("SET idle_session_timeout = 0" if engine == "postgres" else "SET wait_timeout = 3600")
        taken = run.inject("idle_connections", may_be_ended=True).evidence["connections"]
        direct = run.cluster.server("primary").direct
        run.wait_until(
            lambda: has_room_for_one_whose_place_was(engine, direct, OF_THE_FAULT, taken), "a connection that has become free"
        )
        record = run.end_faults()
        assert record.active_to_end is True
        assert record.evidence["ended"] > 0


@SHARED_LONG_ON_MARIADB
def test_connections_are_ended_at_a_rate_and_clients_reconnect(run: FaultyRun) -> None:
    run.wait_until_jobs_complete(5)
    began_ns = time.time_ns()
    began_s = time.monotonic()
    terminated = run.inject("terminate_backends", every="200ms", of="workers").evidence["terminated"]
    run.wait_until(lambda: sum(terminated.values()) >= 4, "four terminations")
    run.wait_until(lambda: {row["detail"].split()[0] for row in run.events(Event.ERROR, began_ns)} & ENDED, "an ended one")
    record = run.end_faults()
    assert record.active_to_end is True
    assert sum(terminated.values()) <= 1 + (time.monotonic() - began_s) / 0.2
    assert set(record.evidence["terminated"]) <= {"worker-1", "worker-2"}
    errors = run.events(Event.ERROR, began_ns)
    assert {row["process"] for row in errors} <= {"worker-1", "worker-2"}
    run.wait_until_jobs_complete(5)
    assert not run.processes.exited_unexpectedly()


@SHARED
def test_new_clients_are_refused_until_the_idle_connections_are_closed(run: FaultyRun) -> None:
    engine = run.scenario.database.engine
    run.wait_until_jobs_complete(5)
    direct = run.cluster.server("primary").direct
    watch = driver_of(engine).connect(direct, "watch")
    record = run.inject("idle_connections")
    assert 15 <= record.evidence["connections"] <= 25
    assert FULL[engine] in record.evidence["refusal"]
    run.wait_until_jobs_complete(5)  # who has a connection goes on
    began_ns = time.time_ns()
    taken, clients = (count_sessions(engine, watch, names) for names in (OF_THE_FAULT, OF_CLIENTS))
    assert clients >= 3
    run.inject("down")
    run.wait_until(lambda: count_sessions(engine, watch, OF_THE_FAULT) >= taken + clients, "the clients' places taken")
    driver_of(engine).close(watch)
    run.cluster.toxiproxy.set_enabled("primary", True)
    run.wait_until(lambda: any(FULL[engine] in row["detail"] for row in run.events(Event.ERROR, began_ns)), FULL[engine])
    run.end_faults()
    run.wait_until_jobs_complete(5)
    driver_of(engine).close(driver_of(engine).connect(direct, "test"))


@SHARED_POSTGRES
def test_a_limited_number_of_idle_connections_leaves_connections_for_clients(run: FaultyRun) -> None:
    record = run.inject("idle_connections", count=5)
    assert record.evidence == {"connections": 5, "refusal": None}
    run.wait_until_jobs_complete(5)
    assert run.end_faults().active_to_end is True


@SHARED_LONG_ON_MARIADB
def test_idle_connections_leave_as_many_free_as_wanted(run: FaultyRun) -> None:
    engine = run.scenario.database.engine
    with ExitStack() as stack:
        run.wait_until_jobs_complete(5)
        record = run.inject("idle_connections", leave_free=4)
        assert record.evidence["refusal"] is None
        driver, direct = driver_of(engine), run.cluster.server("primary").direct
        for _ in range(4):
            stack.callback(driver.close, driver.connect(direct, "other"))
        if engine == "mariadb":  # keeps one more for an administrator
            stack.callback(driver.close, driver.connect(direct, "other"))
        with pytest.raises(driver.errors, match=FULL[engine]):
            driver.connect(direct, "other")
        stack.close()
        assert run.end_faults().active_to_end is True


@SHARED_LONG_ON_MARIADB
def test_a_connection_limit_of_the_other_role_lets_clients_reconnect(run: FaultyRun) -> None:
    engine = run.scenario.database.engine
    run.wait_until_jobs_complete(5)
    record = run.inject("idle_connections", limit=8)
    assert record.evidence["connections"] == 8
    began_ns = time.time_ns()
    run.inject("terminate_backends", every="200ms", of="workers")
    run.wait_until(lambda: len(run.events(Event.ERROR, began_ns)) >= 4, "four ended connections")
    run.end_faults()
    assert not [row for row in run.events(Event.ERROR, began_ns) if FULL[engine] in row["detail"]]
    assert all(record.active_to_end for record in run.faults()[-2:])
    run.wait_until_jobs_complete(5)
    direct = run.cluster.server("primary").direct
    connection = driver_of(engine).connect(direct, "test")
    with connection.cursor() as cursor:
        cursor.execute("SELECT 1 FROM pg_roles WHERE rolname = 'others'" if engine == "postgres" else OTHERS)
        assert not cursor.fetchall(), "the role is gone, too"
    driver_of(engine).close(connection)


@SHARED_POSTGRES
def test_a_role_that_was_there_before_is_not_dropped(run: FaultyRun) -> None:
    with connect(run.cluster.server("primary").direct, "test") as connection:
        connection.execute("CREATE ROLE others")
        try:
            with pytest.raises(NotCarriedOutError, match='role "others" already exists'):
                run.inject("idle_connections", limit=8)
            run.injections.undo_all()
            assert connection.execute("SELECT rolname FROM pg_roles WHERE rolname = 'others'").fetchall() == [("others",)]
        finally:
            connection.execute("DROP ROLE IF EXISTS others")


@SHARED
def test_sessions_of_other_databases_are_left_alone(run: FaultyRun) -> None:
    """On a server of the user they may be those of another application, or of another bench."""
    engine, direct = run.scenario.database.engine, run.cluster.server("primary").direct
    elsewhere = direct.model_copy(update={"database": "postgres" if engine == "postgres" else "mysql"})
    run.wait_until_jobs_complete(5)
    with ExitStack() as stack:
        others = [driver_of(engine).connect(elsewhere, f"worker-{number}") for number in range(90, 99)]
        for connection in others:
            stack.callback(driver_of(engine).close, connection)
        terminated = run.inject("terminate_backends", every="20ms").evidence["terminated"]
        run.wait_until(lambda: sum(terminated.values()) >= 20, "twenty terminations")
        run.end_faults()
        for connection in others:
            assert count_sessions(engine, connection, "worker") > 0, "it still answers"
    run.wait_until_jobs_complete(5)
