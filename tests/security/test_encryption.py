"""Runs on a user's servers are encrypted, and check the server's certificate, as the user's address says: through Toxiproxy, too."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import psycopg
import pytest

from stallbench.engines import driver_of
from stallbench.engines.postgres.driver import connect
from stallbench.errors import EXIT_BAD_INPUT, EXIT_NOT_CARRIED_OUT
from stallbench.records.endpoint import PASSWORD_VARIABLE, Endpoint
from stallbench.servers.join import open_adapter
from tests.certificates import make_certificates
from tests.end_to_end.conftest import Bench, RunHere, bench
from tests.integration.engines import FAST, PrivateServers, private_servers
from tests.integration.relay import relay_before
from tests.waiting import wait_for

__all__ = ["bench"]
IS_ENCRYPTED = "SELECT bool_and(ssl) AND count(*) > 0 FROM pg_stat_ssl JOIN pg_stat_activity USING (pid) WHERE application_name LIKE 'stallbench:%'"
SCENARIO = """
summary = "A load that nothing disturbs."
[database]
engine = "{engine}"
[queue]
kind = "{queue}"
[producers]
rate = 20
[workers]
count = 1
work = "1ms"
[[phases]]
name = "steady"
duration = "5s"
"""


@pytest.fixture(scope="module")
def own_servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PrivateServers]:
    with private_servers(tmp_path_factory.mktemp("servers")) as started:
        yield started


@pytest.fixture(scope="module")
def files() -> Iterator[Mapping[str, str]]:
    """Where the servers' own users can read them, too."""
    with tempfile.TemporaryDirectory() as folder:
        yield make_certificates(Path(folder))


def start_postgres(servers: PrivateServers, files: Mapping[str, str], certificate: str) -> Endpoint:
    """Start a server that accepts encrypted connections only."""
    endpoint = servers.start("postgres", {**FAST["postgres"], "password_encryption": "scram-sha-256"}).endpoint
    with connect(endpoint, "fixture") as admin:
        row = admin.execute("SELECT current_setting('data_directory'), current_setting('hba_file')").fetchone()
        assert row is not None
        folder, rules = Path(row[0]), Path(row[1])
        owner = folder.stat()
        for name, source in (("own.pem", certificate), ("own_key.pem", f"{certificate}_key")):
            copy = folder / name
            copy.write_bytes(Path(files[source]).read_bytes())
            copy.chmod(0o600)
            if owner.st_uid:
                os.chown(copy, owner.st_uid, owner.st_gid)
        for setting, value in (("ssl_cert_file", "own.pem"), ("ssl_key_file", "own_key.pem"), ("ssl", "on")):
            admin.execute(f"ALTER SYSTEM SET {setting} = '{value}'")
        rules.write_text("hostssl all all all scram-sha-256\n")
        admin.execute("SELECT pg_reload_conf()")

    def refuses() -> bool:
        try:
            connect(endpoint.model_copy(update={"parameters": {"sslmode": "disable"}}), "fixture").close()
        except psycopg.OperationalError as error:
            return "no encryption" in str(error)
        return False

    wait_for(refuses, "a server that refuses clear text")
    return endpoint


@pytest.fixture(scope="module")
def postgres(own_servers: PrivateServers, files: Mapping[str, str]) -> Endpoint:
    return start_postgres(own_servers, files, "server")


@pytest.fixture(scope="module")
def stranger(own_servers: PrivateServers, files: Mapping[str, str]) -> Endpoint:
    """Its certificate is of the same authority, for another name."""
    return start_postgres(own_servers, files, "stranger")


@pytest.fixture(scope="module")
def mariadb(own_servers: PrivateServers, files: Mapping[str, str]) -> Endpoint:
    settings = {
        "ssl_ca": files["ca"],
        "ssl_cert": files["server"],
        "ssl_key": files["server_key"],
        "require_secure_transport": "ON",
    }
    return own_servers.start("mariadb", {**FAST["mariadb"], **settings}).endpoint.model_copy(
        update={"parameters": {"ssl-mode": "REQUIRED"}}
    )


def options(endpoint: Endpoint, query: str) -> list[str]:
    scheme = "postgresql" if endpoint.engine == "postgres" else endpoint.engine
    address = f"{scheme}://{endpoint.user or 'root'}@{endpoint.host}:{endpoint.port}/{endpoint.database}?{query}"
    return ["--dsn", address, "--database", endpoint.database, "--allow-server-changes"]


def password_of(endpoint: Endpoint) -> dict[str, str]:
    return {PASSWORD_VARIABLE: endpoint.password.get_secret_value()}


Refused = Callable[[Path, Endpoint, str], "subprocess.CompletedProcess[str]"]
"""What the fixture `refused` is."""


@pytest.fixture
def refused(run_here: RunHere, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Refused:
    """Runs a scenario on a server to which the bench does not get: it is refused before the run begins, which needs no process of its own."""

    def run(scenario: Path, endpoint: Endpoint, query: str) -> subprocess.CompletedProcess[str]:
        monkeypatch.setenv(PASSWORD_VARIABLE, endpoint.password.get_secret_value())
        return run_here("run", scenario, *options(endpoint, query), "--runs", tmp_path / "runs")

    return run


@pytest.mark.end_to_end
@pytest.mark.long  # as each sort of process below, which finds its address in the same way
@pytest.mark.parametrize("how", ["address", "environment"])
def test_a_run_through_toxiproxy_is_encrypted_and_checks_the_name_of_the_server(
    bench: Bench, postgres: Endpoint, files: Mapping[str, str], tmp_path: Path, how: str
) -> None:
    scenario = tmp_path / "plain.toml"
    scenario.write_text(SCENARIO.format(engine="postgres", queue="que"))
    query = f"sslmode=verify-full&sslrootcert={files['ca']}&channel_binding=require" if how == "address" else ""
    variables = {} if query else {"PGSSLMODE": "verify-full", "PGSSLROOTCERT": files["ca"], "PGCHANNELBINDING": "require"}
    run = bench.start("run", str(scenario), *options(postgres, query), environment={**password_of(postgres), **variables})
    bench.wait_for_phase("steady")
    with connect(postgres, "fixture") as admin:
        assert admin.execute(IS_ENCRYPTED).fetchall() == [(True,)]
    out, err = run.communicate(timeout=600)
    assert run.returncode == 0, out + err
    assert bench.verdict()["verdict"] == "pass"


@pytest.mark.end_to_end
@pytest.mark.long  # whoever stands between is refused: with the same driver, without a run
def test_a_run_on_mariadb_is_encrypted_through_toxiproxy(
    bench: Bench, mariadb: Endpoint, files: Mapping[str, str], tmp_path: Path
) -> None:
    scenario = tmp_path / "plain.toml"
    scenario.write_text(SCENARIO.format(engine="mariadb", queue="laravel"))
    run = bench.run(
        "run",
        str(scenario),
        *options(mariadb, f"ssl-mode=VERIFY_IDENTITY&ssl-ca={files['ca']}"),
        environment=password_of(mariadb),
    )
    assert run.returncode == 0, run.stdout + run.stderr


@pytest.mark.parametrize(("certificate", "said"), [("ca", "server certificate for "), ("other_ca", "certificate verify failed")])
@pytest.mark.parametrize("how", ["address", "environment"])
def test_a_certificate_for_another_name_or_of_another_authority_ends_the_run(
    refused: Refused,
    stranger: Endpoint,
    files: Mapping[str, str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    how: str,
    certificate: str,
    said: str,
) -> None:
    scenario = tmp_path / "plain.toml"
    scenario.write_text(SCENARIO.format(engine="postgres", queue="que"))
    query = ""
    if how == "address":
        query = f"sslmode=verify-full&sslrootcert={files[certificate]}"
    else:
        monkeypatch.setenv("PGSSLMODE", "verify-full")
        monkeypatch.setenv("PGSSLROOTCERT", files[certificate])
    run = refused(scenario, stranger, query)
    assert run.returncode == EXIT_NOT_CARRIED_OUT
    assert "refuses the connection: " in run.stderr and said in run.stderr
    assert "Traceback" not in run.stderr


def test_a_library_that_cannot_be_given_the_parameters_is_refused(refused: Refused, postgres: Endpoint, tmp_path: Path) -> None:
    scenario = tmp_path / "plain.toml"
    scenario.write_text(SCENARIO.format(engine="postgres", queue="library:river"))
    run = refused(scenario, postgres, "sslmode=require")
    assert run.returncode == EXIT_BAD_INPUT
    assert "library:river connects by a driver of its own" in run.stderr


@pytest.mark.parametrize("engine", ["postgres", "mariadb"])
def test_whoever_stands_between_the_proxy_and_the_server_is_refused(
    postgres: Endpoint,
    mariadb: Endpoint,
    files: Mapping[str, str],
    engine: str,
) -> None:
    """The one between shows a certificate of the same authority, for another name than that of the user's server."""
    real, parameters = {
        "postgres": (postgres, {"sslmode": "verify-full", "sslrootcert": files["ca"]}),
        "mariadb": (mariadb, {"ssl-mode": "VERIFY_IDENTITY", "ssl-ca": files["ca"]}),
    }[engine]
    driver = driver_of(engine)
    with relay_before(real) as relay:
        named = real.model_copy(
            update={"host": "127.0.0.1", "proxy_host": "127.0.0.1", "port": relay.endpoint.port, "parameters": parameters}
        )
        driver.close(driver.connect(named, "test"))
        other = named.model_copy(update={"host": "db.test"})  # the user's server has another name than the one that answers
        with pytest.raises(driver.errors) as refused:
            driver.connect(other, "test")
        assert "db.test" in str(refused.value)


def test_the_certificates_of_the_address_reach_every_process_and_the_journal(
    postgres: Endpoint, files: Mapping[str, str]
) -> None:
    endpoint = postgres.model_copy(
        update={"parameters": {"sslmode": "verify-full", "sslrootcert": files["ca"]}, "proxy_host": "127.0.0.1"}
    )
    document: dict[str, Any] = endpoint.with_password()
    assert Endpoint.model_validate(document) == endpoint
    with closing(driver_of("postgres").connect(Endpoint.model_validate(document), "test")) as connection:
        assert connection.pgconn.ssl_in_use


ALL_PROCESSES = """
summary = "Each sort of process that connects to the server."
external_processes = true
[database]
engine = "postgres"
[queue]
kind = "que"
[producers]
kind = "locust"
rate = 20
users = 2
[workers]
count = 1
work = "1ms"
[[phases]]
name = "steady"
duration = "{duration}"
longrunners = [{{ kind = "idle_writer", on = "primary" }}]
faults = [{{ kind = "alter_table", on = "primary", after = "1s", reader_for = "2s" }}]
"""
SESSIONS = (
    "SELECT application_name, ssl FROM pg_stat_ssl JOIN pg_stat_activity USING (pid) WHERE application_name LIKE 'stallbench:%'"
)
SORTS = ("worker", "producer", "idle_writer", "alter_table", "collector:", "install", "adapter")


@contextmanager
def joining_worker(bench: Bench, endpoint: Endpoint, log: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A worker that joins the newest run."""
    with log.open("wb") as output:
        process = subprocess.Popen(
            [sys.executable, "-P", "-m", "stallbench.processes", "workers", "--join", str(bench.runs)],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            env={**os.environ, **password_of(endpoint)},
        )
    try:
        yield process
    finally:
        process.kill()
        process.wait()


@pytest.mark.end_to_end
def test_each_sort_of_process_is_encrypted_also_one_that_joins(
    bench: Bench, postgres: Endpoint, files: Mapping[str, str], tmp_path: Path
) -> None:
    scenario = tmp_path / "all.toml"
    scenario.write_text(ALL_PROCESSES.format(duration="8s"))
    bench.runs.mkdir()
    seen: set[tuple[str, bool]] = set()
    with joining_worker(bench, postgres, tmp_path / "joined.log") as joined, connect(postgres, "fixture") as admin:
        run = bench.start(
            "run",
            str(scenario),
            *options(postgres, f"sslmode=verify-full&sslrootcert={files['ca']}&channel_binding=require"),
            environment=password_of(postgres),
        )
        while run.poll() is None:
            seen.update(admin.execute(SESSIONS).fetchall())
            time.sleep(0.05)
        out, err = run.communicate(timeout=60)
        assert joined.wait(60) == 0, (tmp_path / "joined.log").read_text()
    assert "Traceback" not in err
    assert bench.record()["status"] == "completed", out + err
    assert {is_encrypted for name, is_encrypted in seen if name != "stallbench:fixture"} == {True}
    names = " ".join(name for name, _ in seen)
    assert [sort for sort in SORTS if sort not in names] == [], names
    (external,) = [process["name"] for process in bench.record()["processes"] if process.get("external")]
    assert external in names


@pytest.mark.end_to_end
def test_a_process_that_is_told_later_that_there_is_no_encryption_says_nothing_in_clear_text(
    bench: Bench, postgres: Endpoint, files: Mapping[str, str], tmp_path: Path
) -> None:
    """Somebody between gets in the way when the run is under way: the fault, the longrunner and a worker that joins are refused."""
    scenario = tmp_path / "all.toml"
    scenario.write_text(
        ALL_PROCESSES.format(duration="30s").replace("[[phases]]", '[[phases]]\nname = "before"\nduration = "20s"\n[[phases]]')
    )
    bench.runs.mkdir()
    with relay_before(postgres) as relay:
        between = postgres.model_copy(update={"port": relay.endpoint.port})
        query = f"sslmode=verify-full&sslrootcert={files['ca']}"
        run = bench.start("run", str(scenario), *options(between, query), environment=password_of(postgres))
        bench.wait_for_phase("before")
        relay.refuse_encryption()
        with joining_worker(bench, postgres, tmp_path / "joined.log") as joined:
            assert joined.wait(120) != 0
            said = (tmp_path / "joined.log").read_text()
            assert "server does not support SSL, but SSL was required" in said
            assert "Traceback" not in said
        out, err = run.communicate(timeout=600)
        assert run.returncode == EXIT_NOT_CARRIED_OUT, out + err
        assert "Traceback" not in err
        assert relay.heard == []
    with open_adapter("primary", postgres) as adapter:  # which the run could not reach any more
        adapter.empty_database()


@pytest.mark.parametrize(
    ("mode", "said"),
    [("verify-full", "server does not support SSL, but SSL was required"), ("prefer", "no encryption")],
)
def test_somebody_between_who_says_that_there_is_no_encryption_ends_the_run(
    refused: Refused, postgres: Endpoint, files: Mapping[str, str], tmp_path: Path, mode: str, said: str
) -> None:
    """With ``prefer`` the client goes on in clear text, as libpq says: only a server that refuses that then protects the user."""
    scenario = tmp_path / "plain.toml"
    scenario.write_text(SCENARIO.format(engine="postgres", queue="que"))
    with relay_before(postgres) as relay:
        relay.refuse_encryption()
        between = postgres.model_copy(update={"port": relay.endpoint.port})
        query = f"sslmode={mode}" + (f"&sslrootcert={files['ca']}" if mode == "verify-full" else "")
        run = refused(scenario, between, query)
        heard = b"".join(relay.heard)
    assert run.returncode == EXIT_NOT_CARRIED_OUT
    assert said in run.stderr
    assert "Traceback" not in run.stderr
    if mode == "verify-full":
        assert heard == b""
    else:
        assert b"application_name" in heard, "the name of the user and the database, and nothing else"
        assert postgres.password.get_secret_value().encode() not in heard
