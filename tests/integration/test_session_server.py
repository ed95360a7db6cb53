"""The server that the runs of a test session may share: who gets it, in which state, and what is left of it."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from urllib.parse import urlsplit

import psutil
import psycopg
import pymysql
import pytest

from stallbench.setup.server_programs import find_server
from stallbench.testing.session_server import Answer, Request, SessionServer
from stallbench.waiting import wait_until
from tests.unit.scenario_text import SMALL
from tests.waiting import PATIENCE_S

pytestmark = pytest.mark.integration

ALONE = SMALL.replace("replicas = 1\n", "").replace("settings = {", "settings = { max_prepared_transactions = 4,")
"""A scenario with one server."""
NOISY = """
from stallbench.queues.skip_locked import SkipLocked
print("hello")

class Noisy(SkipLocked):
    kind = "noisy"
"""


@contextmanager
def session_server(logs: Path) -> Iterator[SessionServer]:
    server = SessionServer(logs)
    try:
        yield server
    finally:
        server.stop()


def request(folder: Path, text: str = ALONE, *overrides: str) -> Request:
    file = folder / "mine.toml"
    file.write_text(text)
    return Request(scenario=str(file), variant=None, overrides=list(overrides), folder=str(folder))


def connect(answer: Answer) -> psycopg.Connection[tuple[object, ...]]:
    return psycopg.connect(answer.address.removeprefix("primary="), password=answer.password, autocommit=True)


def start_time(answer: Answer) -> object:
    with connect(answer) as connection:
        row = connection.execute("SELECT pg_postmaster_start_time()").fetchone()
        assert row is not None
        return row[0]


def test_runs_share_one_server_and_find_nothing_of_each_other(tmp_path: Path) -> None:
    with session_server(tmp_path / "logs") as server:
        first = server.give(request(tmp_path))
        assert first.options == ["--dsn", first.address, "--database", first.database, "--allow-server-changes"]
        assert first.password not in first.address
        started = start_time(first)
        left_open = connect(first)
        left_open.execute("CREATE TABLE jobs (id int); CREATE SCHEMA mine; CREATE TABLE mine.other (id int)")
        left_open.execute("SELECT pg_create_physical_replication_slot('gone', true)")
        left_open.execute("BEGIN; LOCK TABLE jobs; PREPARE TRANSACTION 'it''s left'")
        again = server.give(request(tmp_path, ALONE, "workers.count=3"))
        assert start_time(again) == started
        assert refuses(first), "what is left of an earlier run cannot connect to the database of the next one"
        with connect(again) as connection:
            tables = connection.execute("SELECT count(*) FROM pg_class WHERE relname IN ('jobs', 'other')").fetchone()
            assert tables == (0,)
            left = "SELECT (SELECT count(*) FROM pg_prepared_xacts) + (SELECT count(*) FROM pg_replication_slots)"
            assert connection.execute(left).fetchone() == (0,)
            calls = connection.execute("SELECT count(*) FROM pg_stat_statements WHERE query ILIKE 'create table%'").fetchone()
            assert calls == (0,), "what the statements of an earlier run cost is not counted"
        with pytest.raises(psycopg.OperationalError):
            left_open.execute("SELECT 1")


def test_other_settings_of_the_server_need_another_server(tmp_path: Path) -> None:
    with session_server(tmp_path / "logs") as server:
        first = server.give(request(tmp_path))
        other = server.give(request(tmp_path, ALONE, 'database.settings={shared_buffers = "16MB"}'))
        with connect(other) as connection:
            assert connection.execute("SHOW shared_buffers").fetchone() == ("16MB",)
        with pytest.raises(psycopg.OperationalError):
            connect(first)


def test_after_the_server_was_killed_the_next_run_gets_another_one(tmp_path: Path) -> None:
    with session_server(tmp_path / "logs") as server:
        first = server.give(request(tmp_path))
        with connect(first) as connection:
            psutil.Process(connection.info.backend_pid).parent().kill()  # type: ignore[union-attr]
        assert wait_until(lambda: refuses(first), within_s=PATIENCE_S)
        answers = [server.give(request(tmp_path)) for _ in range(2)]
        assert "the shared server could not be used" in answers[0].own_because
        assert start_time(answers[1])


def test_paths_count_from_the_working_directory_of_the_test(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "mine.toml").write_text(ALONE)
    monkeypatch.chdir("/")
    with session_server(tmp_path / "logs") as server:
        assert server.give(Request(scenario="mine.toml", variant=None, overrides=[], folder=str(tmp_path))).address


def test_on_mariadb_the_next_run_finds_nothing_of_the_one_before(tmp_path: Path) -> None:
    if find_server("mariadb") is None:
        pytest.skip("MariaDB is not on this machine")
    asked = Request(scenario="laravel-order", variant=None, overrides=[], folder=str(tmp_path))
    with session_server(tmp_path / "logs") as server:
        for _ in range(2):
            answer = server.give(asked)
            assert not answer.own_because
            address = urlsplit(answer.address.removeprefix("primary="))
            assert address.scheme == "mariadb"
            assert address.port
            with (
                closing(
                    pymysql.connect(
                        host=address.hostname,
                        port=address.port,
                        user=address.username or "root",
                        password=answer.password,
                        database=answer.database,
                    )
                ) as connection,
                connection.cursor() as cursor,
            ):
                cursor.execute("CREATE TABLE jobs (id int)")  # fails if the table of the run before is still there


@pytest.mark.parametrize(
    ("text", "overrides", "reason"),
    [
        (SMALL, (), "it has replicas"),
        (ALONE, ("database.xids_left=5_000_000",), "database.xids_left: is only for servers that the bench starts"),
        (ALONE, ('phases.longtx.faults=[{kind="crash", on="primary", after="1s"}]',), "crash affects a whole server"),
        (ALONE, ('queue.kind="nothing"',), 'queue.kind is "nothing"'),
    ],
)
def test_a_run_that_cannot_share_a_server_has_its_own(tmp_path: Path, text: str, overrides: tuple[str, ...], reason: str) -> None:
    with session_server(tmp_path / "logs") as server:
        answer = server.give(request(tmp_path, text, *overrides))
        assert reason in answer.own_because
        assert (answer.options, dict(answer.environment)) == ([], {})
        assert not (tmp_path / "logs").exists(), "no server was started for it"


def test_the_server_ends_with_the_process_that_asks_and_what_a_queue_s_file_prints_is_no_answer(tmp_path: Path) -> None:
    (tmp_path / "noisy.py").write_text(NOISY)
    asked = request(tmp_path, ALONE, f"queue.kind={tmp_path}/noisy.py:Noisy")
    command = [sys.executable, "-m", "stallbench.testing.session_server", str(tmp_path / "logs")]
    service = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert service.stdin is not None
    assert service.stdout is not None
    service.stdin.write(asked.write() + "\n")
    service.stdin.flush()
    answer = Answer.read(service.stdout.readline())
    assert answer.address
    assert start_time(answer)
    service.stdin.close()
    assert service.wait(60) == 0
    assert service.stdout.read() == ""
    assert wait_until(lambda: refuses(answer), within_s=PATIENCE_S)


def refuses(answer: Answer) -> bool:
    try:
        connect(answer).close()
    except psycopg.OperationalError:
        return True
    return False
