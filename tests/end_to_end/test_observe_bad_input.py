"""`stallbench observe` on real servers that refuse it, have nothing to observe, or go away: one message, no traceback, the documented exit code."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from pathlib import Path

import pytest

from stallbench.engines import driver_of
from stallbench.engines.postgres.driver import connect
from stallbench.records.endpoint import Endpoint
from tests.end_to_end.conftest import RunHere
from tests.end_to_end.test_observe import start
from tests.integration.engines import PrivateServers

pytestmark = pytest.mark.end_to_end


@pytest.fixture
def postgres(servers: PrivateServers) -> Iterator[Endpoint]:
    """An empty database, and a user who may not connect to it."""
    with servers.empty("postgres") as endpoint:
        with connect(endpoint, "fixture") as admin:
            admin.execute(
                f"REVOKE CONNECT ON DATABASE {endpoint.database} FROM PUBLIC; CREATE ROLE outsider LOGIN PASSWORD 'secret'"
            )
        yield endpoint
        with connect(endpoint, "fixture") as admin:
            admin.execute("DROP ROLE outsider")


def address(endpoint: Endpoint, *, user: str = "", database: str = "") -> str:
    scheme = "postgresql" if endpoint.engine == "postgres" else endpoint.engine
    return f"{scheme}://{user or endpoint.user}@{endpoint.host}:{endpoint.port}/{database or endpoint.database}"


Fails = Callable[..., None]
"""What the fixture `fails` is."""


@pytest.fixture
def fails(run_here: RunHere, monkeypatch: pytest.MonkeyPatch) -> Fails:
    """Runs `stallbench observe` in an environment with further variables, and expects one message and an exit code."""

    def run_and_fail(code: int, words: str, arguments: Sequence[str], **environment: str) -> None:
        with monkeypatch.context() as patch:
            for name, value in {"PGPASSWORD": "", **environment}.items():
                patch.setenv(name, value)
            done = run_here("observe", *arguments)
        assert done.returncode == code, done.stdout + done.stderr
        assert words in done.stderr
        assert "Traceback" not in done.stdout + done.stderr
        assert len(done.stderr.strip().splitlines()) == 1

    return run_and_fail


def test_postgres_refuses_the_user(fails: Fails, postgres: Endpoint) -> None:
    password = postgres.password.get_secret_value()
    fails(3, "password authentication failed", ["--dsn", address(postgres), "--once"], PGPASSWORD="wrong")
    fails(3, 'database "nowhere" does not exist', ["--dsn", address(postgres, database="nowhere"), "--once"], PGPASSWORD=password)
    denied = ["--dsn", address(postgres, user="outsider"), "--once"]
    fails(3, "permission denied for database", denied, PGPASSWORD="secret")


def test_a_table_that_does_not_exist_is_no_queue(fails: Fails, postgres: Endpoint) -> None:
    arguments = ["--dsn", address(postgres), "--once", "--table", "public.jbos"]
    words = "--table public.jbos: there is no such table in this database; give it as SCHEMA.TABLE"
    fails(2, words, arguments, PGPASSWORD=postgres.password.get_secret_value())


def test_an_address_with_the_scheme_of_another_engine_ends_with_a_hint(fails: Fails, postgres: Endpoint) -> None:
    as_mariadb = address(postgres.model_copy(update={"engine": "mariadb"}))
    fails(3, "Is it PostgreSQL (--dsn postgresql://..)?", ["--dsn", as_mariadb, "--once"], MYSQL_PWD="secret")


@pytest.mark.parametrize("parameters", ["", "?sslmode=disable"])
def test_a_server_of_innodb_that_is_taken_for_postgres_ends_with_a_hint(
    fails: Fails, servers: PrivateServers, parameters: str
) -> None:
    with servers.empty("mariadb") as endpoint:
        as_postgres = address(endpoint.model_copy(update={"engine": "postgres"}), user="reader") + parameters
        fails(3, "Is it MariaDB or MySQL (--dsn mariadb://..)?", ["--dsn", as_postgres, "--once"], PGPASSWORD="secret")


def test_an_empty_database_has_no_load_to_record(fails: Fails, postgres: Endpoint, tmp_path: Path) -> None:
    arguments = ["--dsn", address(postgres), "--for", "30s", "--record-profile", str(tmp_path / "load.toml")]
    fails(2, "records one queue; found none", arguments, PGPASSWORD=postgres.password.get_secret_value())


@pytest.mark.long
def test_a_server_that_goes_away_leaves_no_profile(servers: PrivateServers, tmp_path: Path) -> None:
    control = servers.start("postgres", {"fsync": False})
    assert control.process is not None
    endpoint = control.endpoint
    with connect(endpoint, "fixture") as admin:
        admin.execute(
            "CREATE TABLE jobs (id bigserial, queue text, payload text, attempts int, reserved_at int, available_at int, created_at int)"
        )
    profile = tmp_path / "load.toml"
    arguments = ("--dsn", address(endpoint), "--for", "12s", "--every", "1s", "--record-profile", str(profile))
    process = start(*arguments, password=endpoint.password.get_secret_value())
    assert process.stdout is not None
    next(line for line in process.stdout if "add --all" in line)
    control.process.kill()
    out, err = process.communicate(timeout=600)
    assert process.returncode == 3, out + err
    assert "no profile was written" in err
    assert "Traceback" not in out + err
    assert not profile.exists()


@pytest.mark.parametrize("engine", ["mariadb", "mysql"])
def test_innodb_refuses_the_user(fails: Fails, servers: PrivateServers, tmp_path: Path, engine: str) -> None:
    with (
        servers.empty(engine) as endpoint,
        closing(driver_of("mariadb").connect(endpoint, "fixture")) as connection,
        connection.cursor() as cursor,
    ):
        cursor.execute("CREATE USER outsider@'127.0.0.1' IDENTIFIED BY 'secret'")
        cursor.execute("CREATE USER reader@'127.0.0.1' IDENTIFIED BY 'secret'")
        cursor.execute(f"GRANT SELECT ON {endpoint.database}.* TO reader@'127.0.0.1'")
        try:
            once = ["--dsn", address(endpoint, user="outsider"), "--once"]
            fails(3, "Access denied", once, MYSQL_PWD="wrong")
            fails(3, "Access denied", once, MYSQL_PWD="secret")
            arguments = ["--dsn", address(endpoint, user="reader"), "--for", "30s"]
            arguments += ["--record-profile", str(tmp_path / "load.toml")]
            fails(2, "records one queue; found none", arguments, MYSQL_PWD="secret")
        finally:
            cursor.execute("DROP USER outsider@'127.0.0.1'")
            cursor.execute("DROP USER reader@'127.0.0.1'")
