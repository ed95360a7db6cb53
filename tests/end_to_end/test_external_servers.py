"""Runs on servers that the bench did not start: it uses an empty database, and leaves everything as it was."""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import psycopg
import pytest

from stallbench.engines.database import Database
from stallbench.engines.postgres.driver import connect
from stallbench.records.endpoint import PASSWORD_VARIABLE, Endpoint
from tests.end_to_end.conftest import Bench, RunHere, assert_nothing_is_left, measured, short
from tests.integration.running_cluster import StartedCluster, running_cluster
from tests.waiting import wait_for

pytestmark = pytest.mark.end_to_end
OBJECTS = "SELECT relname FROM pg_class WHERE relnamespace = 'public'::regnamespace AND relkind = 'r'"
HELD_SLOTS = "SELECT slot_name FROM pg_replication_slots WHERE slot_name LIKE 'stallbench%'"


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[StartedCluster]:
    """A primary and a replica that the run did not start."""
    with running_cluster(Database(replicas=1), tmp_path_factory.mktemp("external")) as started:
        yield started


def joining(servers: StartedCluster, *more: str) -> list[str]:
    """Return the options that join them."""
    options = []
    for server in servers.cluster.servers:
        address = f"postgresql://{server.direct.user}@{server.direct.host}:{server.direct.port}/{server.direct.database}"
        options += ["--dsn", f"{server.name}={address}"]
    return [*options, "--set", "database.replicas=1", "--database", servers.cluster.server("primary").direct.database, *more]


def password_of(servers: StartedCluster) -> dict[str, str]:
    return {PASSWORD_VARIABLE: servers.cluster.server("primary").direct.password.get_secret_value()}


def ask(endpoint: Endpoint, query: str) -> list[tuple[object, ...]]:
    with connect(endpoint, "test") as connection:
        return connection.execute(query).fetchall()


RunOn = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture
def run_on(servers: StartedCluster, run_here: RunHere, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> RunOn:
    """Joins the servers with a run that is refused before it begins, which needs no process of its own."""

    def run(*more: str, password: str | None = None) -> subprocess.CompletedProcess[str]:
        monkeypatch.setenv(PASSWORD_VARIABLE, password or password_of(servers)[PASSWORD_VARIABLE])
        return run_here("run", "longtx", *short(), *joining(servers, *more), "--runs", str(tmp_path / "refused"))

    return run


def test_a_run_on_external_servers_leaves_them_as_they_were(bench: Bench, servers: StartedCluster, run_on: RunOn) -> None:
    primary, toxiproxy = servers.cluster.server("primary"), servers.cluster.toxiproxy
    options = joining(servers, "--allow-server-changes", "--toxiproxy", f"http://127.0.0.1:{toxiproxy.port}")
    load = measured("workers.work=50ms", "producers.capacity_share=0.5")
    ended = bench.start("run", "longtx", *load, *options, environment=password_of(servers))
    bench.wait_for_phase("longtx")
    ended.send_signal(
        signal.SIGSTOP
    )  # so that it cannot end before this test and a second run look at the database; its workers continue
    try:
        assert ask(primary.direct, "SHOW autovacuum_naptime") == [("5s",)]
        assert ("que_jobs",) in ask(primary.direct, OBJECTS)
        second = run_on()
    finally:
        ended.send_signal(signal.SIGCONT)
    assert second.returncode == 3
    assert "is in use by another run of the bench" in second.stderr

    out, err = ended.communicate(timeout=600)
    assert ended.returncode == 0, out + err
    assert ask(primary.direct, OBJECTS) == []
    assert ask(primary.direct, "SHOW autovacuum_naptime") == [("1min",)]
    (finding,) = [finding for finding in bench.verdict()["findings"] if finding["check"] == "conservation"]
    assert finding["result"] == "pass"
    assert [server["name"] for server in bench.record()["servers"]] == ["primary", "replica-1"]
    assert password_of(servers)[PASSWORD_VARIABLE] not in (bench.folder() / "run.json").read_text()

    assert toxiproxy.answers(), "the external Toxiproxy was stopped"
    assert bench.record()["servers"][0]["proxy_port"] == primary.proxied.port
    with pytest.raises(psycopg.errors.UndefinedTable):
        ask(primary.proxied, "SELECT FROM que_jobs")


def test_a_bench_that_is_killed_leaves_nothing_on_joined_servers(bench: Bench, servers: StartedCluster) -> None:
    primary = servers.cluster.server("primary").direct
    holders = 'phases.longtx.longrunners=[{kind="slot",on="primary"},{kind="idle_writer",on="primary"}]'
    process = bench.start(
        *("run", "longtx", *short(holders, "phases.longtx.duration=1h"), *joining(servers, "--allow-server-changes")),
        environment=password_of(servers),
    )
    bench.wait_for_phase("longtx")
    assert ask(primary, HELD_SLOTS) == [("stallbench_slot_1",)]
    process.send_signal(signal.SIGKILL)
    process.wait()
    wait_for(lambda: not ask(primary, HELD_SLOTS), "the end of the slot, which would keep the WAL for ever", 120)
    wait_for(lambda: not ask(primary, OBJECTS), lambda: f"the end of {ask(primary, OBJECTS)}", 120)
    naptime = "SHOW autovacuum_naptime"
    wait_for(lambda: ask(primary, naptime) == [("1min",)], lambda: f"{ask(primary, naptime)}; the setting of before", 120)
    assert_nothing_is_left(bench, process.pid)


def test_a_database_that_is_not_empty_is_not_moved_into(run_on: RunOn, servers: StartedCluster) -> None:
    primary = servers.cluster.server("primary").direct
    with connect(primary, "test") as connection:
        connection.execute("CREATE TABLE precious AS SELECT 1 AS one")
        try:
            ended = run_on("--allow-server-changes")
            assert ended.returncode == 3
            assert "is not empty: it has table public.precious. The bench uses an empty database only" in ended.stderr
            assert connection.execute("SELECT one FROM precious").fetchall() == [(1,)]
            assert connection.execute("SHOW autovacuum_naptime").fetchall() == [("1min",)]
        finally:
            connection.execute("DROP TABLE precious")


def test_settings_of_joined_servers_are_not_changed_unasked(run_on: RunOn) -> None:
    ended = run_on()
    assert ended.returncode == 3
    assert "primary has other settings than the scenario asks for: autovacuum_naptime (is '1min', wanted '5s')" in ended.stderr
    assert "--allow-server-changes" in ended.stderr


def test_a_wrong_password_is_reported(run_on: RunOn) -> None:
    ended = run_on(password="wrong")
    assert ended.returncode == 3
    assert "refuses the connection: " in ended.stderr
    assert "Traceback" not in ended.stderr
