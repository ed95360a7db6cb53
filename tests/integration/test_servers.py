"""Private servers: reached as they should be, cut as they should be, and silent about their password."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import psutil
import psycopg
import pymysql
import pytest

from stallbench.base.ports import is_free
from stallbench.engines import driver_of
from stallbench.engines.database import Database
from stallbench.engines.mysql import data_folder as mysql_data_folder
from stallbench.engines.mysql.server import MySQLServer
from stallbench.engines.postgres import data_folder as postgres_data_folder
from stallbench.engines.postgres.driver import connect
from stallbench.engines.postgres.server import PostgresInstallation, PostgresServer, find_dynamic_shared_memory
from stallbench.errors import NotCarriedOutError
from stallbench.processes.reaper import OWNER_FILE, find_marked
from stallbench.servers.cluster import Cluster
from stallbench.setup.server_programs import find_server
from stallbench.waiting import wait_until
from tests.integration.running_cluster import StartedCluster, running_cluster
from tests.waiting import wait_for

pytestmark = pytest.mark.integration


def scalar(endpoint: Any, query: str) -> Any:
    with connect(endpoint, "test") as connection:
        row = connection.execute(query).fetchone()
    return row[0] if row else None


def test_clients_and_collectors_reach_the_same_server_by_different_ports(cluster: Cluster) -> None:
    primary = cluster.server("primary")
    assert primary.direct.port != primary.proxied.port
    query = "SELECT system_identifier FROM pg_control_system()"
    assert scalar(primary.direct, query) == scalar(primary.proxied, query)


def test_the_replica_streams_through_its_proxy_and_falls_behind_when_that_is_cut(cluster: Cluster, database: Any) -> None:
    replica = database.on(cluster.server("replica-1"))
    with connect(database.direct, "test") as connection:
        connection.execute("CREATE TABLE arrived (n int)")
        assert wait_until(lambda: scalar(replica, "SELECT to_regclass('arrived') IS NOT NULL"), within_s=60)
        cluster.toxiproxy.set_enabled("replication-replica-1", enabled=False)
        try:
            connection.execute("INSERT INTO arrived VALUES (1)")
            time.sleep(0.5)
            assert scalar(replica, "SELECT count(*) FROM arrived") == 0
        finally:
            cluster.toxiproxy.set_enabled("replication-replica-1", enabled=True)
        assert wait_until(lambda: scalar(replica, "SELECT count(*) FROM arrived") == 1, within_s=60)


def test_a_toxic_is_in_force_from_when_it_is_added_to_when_it_is_removed(cluster: Cluster) -> None:
    primary = cluster.server("primary")

    def roundtrip_ms() -> float:
        with connect(primary.proxied, "test") as connection:
            began_s = time.monotonic()
            connection.execute("SELECT 1")
            return (time.monotonic() - began_s) * 1e3

    cluster.toxiproxy.add_toxic("primary", "slow", "latency", stream="downstream", attributes={"latency": 200})
    try:
        assert roundtrip_ms() > 190
    finally:
        cluster.toxiproxy.remove_toxic("primary", "slow")
    assert cluster.toxiproxy.toxics("primary") == {}
    # On a busy machine one round trip may take as long, but not all of them.
    assert any(roundtrip_ms() < 190 for _ in range(10))


def test_a_toxic_that_the_server_refuses_is_reported(cluster: Cluster) -> None:
    with pytest.raises(NotCarriedOutError, match="Toxiproxy refused toxic 'x'"):
        cluster.toxiproxy.add_toxic("primary", "x", "no_such_kind", stream="downstream", attributes={})


def test_a_cut_proxy_refuses_clients_while_the_server_is_up(cluster: Cluster) -> None:
    primary = cluster.server("primary")
    cluster.toxiproxy.set_enabled("primary", enabled=False)
    try:
        with pytest.raises(psycopg.OperationalError):
            connect(primary.proxied, "test")
        assert scalar(primary.direct, "SELECT 1") == 1
    finally:
        cluster.toxiproxy.set_enabled("primary", enabled=True)
    assert scalar(primary.proxied, "SELECT 1") == 1


def test_the_password_is_in_no_command_line_no_environment_and_no_log(started_cluster: StartedCluster) -> None:
    primary = started_cluster.cluster.server("primary")
    password = primary.direct.password.get_secret_value()
    assert len(password) > 20
    assert primary.log is not None
    shown = [primary.log.read_text(), repr(primary), str(started_cluster.cluster.records())]
    for process in psutil.process_iter():
        try:
            shown += [" ".join(process.cmdline()), str(process.environ())]
        except psutil.Error:
            continue
    assert not any(password in text for text in shown)


def test_a_connection_with_another_password_is_refused(cluster: Cluster) -> None:
    endpoint = cluster.server("primary").direct
    with pytest.raises(psycopg.OperationalError, match="password authentication failed"):
        connect(endpoint.model_copy(update={"password": type(endpoint.password)("wrong")}), "test")


def test_a_cluster_with_a_slot_goes_up_and_leaves_nothing(tmp_path: Path) -> None:
    database = Database(replicas=1, replication_slot=True, hot_standby_feedback=True, settings={"fsync": False})
    with running_cluster(database, tmp_path) as started:
        primary = started.cluster.server("primary").direct
        assert scalar(primary, "SELECT active FROM pg_replication_slots WHERE slot_name = 'replica_1'") is True
        pids = [process.pid for process in started.processes.records()]
        token = json.loads((started.scratch / OWNER_FILE).read_text())["token"]
        assert {process.pid for process in find_marked(token, started.scratch)} >= set(pids)
        servers = {process.pid for process in started.processes.records() if process.role == "server"}
        listed = {process.pid for process in find_marked("a token that none carries", started.scratch)}
        assert listed >= servers, "as in a container, where root may not read the environment of another user's process"
        ports = [server.direct.port for server in started.cluster.servers]
    assert not any(psutil.pid_exists(pid) for pid in pids)
    # The reaper, a process of its own, has the last word.
    wait_for(lambda: not started.scratch.exists(), "the end of the temporary folder")
    assert all(is_free(port) for port in ports)


def test_a_server_that_is_killed_leaves_no_shared_memory(tmp_path: Path) -> None:
    with running_cluster(Database(settings={"fsync": False}), tmp_path) as started:
        pid_file = (started.scratch / "primary" / "postmaster.pid").read_text().splitlines()
        key, segment = pid_file[6].split()
        assert segment in shared_memory_segments()
        for process in started.processes.of_role("server"):
            process.kill()
    wait_for(lambda: segment not in shared_memory_segments(), f"the end of the shared memory of key {key}")


def test_a_server_that_a_fault_kills_leaves_no_dynamic_shared_memory(tmp_path: Path) -> None:
    """That of a primary that is not started again, because a replica is promoted, would stay until the machine is."""
    with running_cluster(Database(settings={"fsync": False}), tmp_path) as started:
        control = started.cluster.server("primary").control
        assert isinstance(control, PostgresServer)
        assert control.process is not None
        used = find_dynamic_shared_memory([control.process.pid])
        assert used
        control.kill()
        assert not [segment for segment in used if segment.exists()]


def shared_memory_segments() -> set[str]:
    """Return the ids of System V's shared memory segments on this machine."""
    _, *rows = Path("/proc/sysvipc/shm").read_text().splitlines()
    return {row.split()[1] for row in rows}


def test_a_data_folder_is_copied_from_the_first_and_has_its_own_password(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(postgres_data_folder, "CACHE", tmp_path / "cache")
    run, programs = PostgresInstallation.run, []

    def run_and_note(installation: PostgresInstallation, program: str, *arguments: str, text: str = "") -> None:
        programs.append(program)
        run(installation, program, *arguments, text=text)

    monkeypatch.setattr(PostgresInstallation, "run", run_and_note)
    configurations, servers = [], []
    for name in ("first", "second"):
        (tmp_path / name).mkdir()
        with running_cluster(Database(settings={"fsync": False}), tmp_path / name) as started:
            data = started.scratch / "primary"
            configurations.append([(data / file).read_text() for file in ("postgresql.conf", "pg_hba.conf")])
            servers.append(started.cluster.server("primary"))
            direct = servers[-1].direct
            assert scalar(direct, "SELECT 1") == 1
            if name == "second":
                with pytest.raises(psycopg.OperationalError, match="password authentication failed"):
                    connect(direct.model_copy(update={"password": servers[0].direct.password}), "test")
    assert programs == ["initdb", "postgres"]
    assert configurations[0] == configurations[1]
    first, second = (server.control.settings_in_force for server in servers)
    different = {key for key in {*first, *second} if first.get(key) != second.get(key)}
    assert different <= {"port"}


def test_without_a_cache_each_data_folder_is_initialised(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "cache").write_text("a file")
    monkeypatch.setattr(postgres_data_folder, "CACHE", tmp_path / "cache")
    with running_cluster(Database(settings={"fsync": False}), tmp_path) as started:
        assert scalar(started.cluster.server("primary").direct, "SELECT 1") == 1


@pytest.mark.skipif(find_server("mysql") is None, reason="MySQL is not on this machine; `make setup` brings it")
def test_a_data_folder_of_mysql_is_copied_from_the_first_and_has_its_own_identity_and_password(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mysql_data_folder, "CACHE", tmp_path / "cache")
    run, initialised = MySQLServer.run_to_end, []

    def run_and_note(server: MySQLServer, *arguments: str, text: str = "") -> None:
        initialised.append(server.name)
        run(server, *arguments, text=text)

    monkeypatch.setattr(MySQLServer, "run_to_end", run_and_note)
    servers, identities, users, settings = [], [], [], []
    for name in ("first", "second"):
        (tmp_path / name).mkdir()
        with running_cluster(Database(engine="mysql"), tmp_path / name) as started:
            servers.append(started.cluster.server("primary"))
            settings.append(servers[-1].control.settings_in_force)
            with driver_of("mysql").connect(servers[-1].direct, "test") as connection, connection.cursor() as cursor:
                cursor.execute("SELECT @@server_uuid")
                identities.append(cursor.fetchone())
                cursor.execute("SELECT user, host, plugin FROM mysql.user ORDER BY 1, 2")
                users.append(cursor.fetchall())
            if name == "second":
                wrong = servers[-1].direct.model_copy(update={"password": servers[0].direct.password})
                with pytest.raises(pymysql.OperationalError, match="Access denied"):
                    driver_of("mysql").connect(wrong, "test")
    assert initialised == ["primary"], "the second is a copy"
    assert identities[0] != identities[1]
    assert users[0] == users[1]
    assert {key for key in {*settings[0], *settings[1]} if settings[0].get(key) != settings[1].get(key)} <= {
        "port",
        "secure_file_priv",
    }


@pytest.mark.skipif(find_server("mysql") is None, reason="MySQL is not on this machine; `make setup` brings it")
def test_an_initialisation_of_mysql_that_fails_leaves_no_template(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mysql_data_folder, "CACHE", tmp_path / "cache")

    def fail(_: MySQLServer, *arguments: str) -> None:
        raise NotCarriedOutError(f"mysqld {arguments[0]} failed: no space")

    monkeypatch.setattr(MySQLServer, "run_to_end", fail)
    with (
        pytest.raises(NotCarriedOutError, match="mysqld --initialize-insecure failed"),
        running_cluster(Database(engine="mysql"), tmp_path),
    ):
        pytest.fail("it has started")
    assert not (tmp_path / "cache").exists()


@pytest.mark.parametrize(("engine", "replicas"), [("mysql", 0), ("mariadb", 1)])
def test_a_binary_log_does_not_grow_for_as_long_as_a_soak_lasts(engine: Any, replicas: int, tmp_path: Path) -> None:
    """By default both keep all of it, in files of a gigabyte: at a few hundred jobs a second, gigabytes in a night."""
    if find_server(engine) is None:
        pytest.skip(f"{engine} is not on this machine; `make setup` brings it")
    with running_cluster(Database(engine=engine, replicas=replicas), tmp_path) as started:
        for server in started.cluster.servers:
            with driver_of(engine).connect(server.direct, "test") as connection, connection.cursor() as cursor:
                cursor.execute("SELECT @@log_bin, @@binlog_expire_logs_seconds, @@max_binlog_size")
                is_on, kept_s, most_bytes = cursor.fetchone()
                assert is_on
                assert 0 < kept_s <= 3600
                assert most_bytes <= 100 * 2**20
