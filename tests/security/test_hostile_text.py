"""What other users of an observed server call their things cannot control the reader's terminal, forge a line, or change a page."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import socket
import struct
import subprocess
import sys
import termios
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from pathlib import Path

import psycopg
import pymysql
import pytest
import requests
from psycopg import sql

from stallbench import PROJECT
from stallbench.engines import driver_of
from stallbench.engines.postgres.driver import connect
from stallbench.records.endpoint import Endpoint
from tests.integration.conftest import EmptyOn, TestDatabase
from tests.integration.observed import innodb_observer_of, observer_of, section_of
from tests.security.hidden import find_hidden, hidden_in_files
from tests.waiting import wait_for

pytestmark = pytest.mark.integration

ESCAPES = "\x1b[2J\x1b[3;1H\x1b]52;c;cm0gLXJm\x07\x08\r\x7f\x9b1A"
DIRECTIONS = "\u202e\u2066\u200f\u061c\u200b\u200d\u2060\ufeff\xad\U000e0041"
MARKUP = "[red]<b>](x`|"
HOSTILE = f"{ESCAPES}{DIRECTIONS}{MARKUP}\n"
_NAME_BYTES = 63


def name_of(text: str) -> str:
    """Return as much of a text as a name can have."""
    return text.encode()[:_NAME_BYTES].decode(errors="ignore")


TABLE = name_of(f'jo"bs{DIRECTIONS}\x1b[2J\n')
SCHEMA = name_of(f"sch{ESCAPES}")
USER = name_of(f"us{DIRECTIONS}\x1b[1A\n")
GID = f"xa'\\{HOSTILE}"


def environment_of(endpoint: Endpoint) -> dict[str, str]:
    return {**os.environ, "STALLBENCH_PASSWORD": endpoint.password.get_secret_value(), "TERM": "xterm-256color"}


def observe(endpoint: Endpoint, scheme: str, *arguments: str | Path) -> list[str]:
    address = f"{scheme}://{endpoint.user or 'reader'}@{endpoint.host}:{endpoint.port}/{endpoint.database}"
    return [sys.executable, "-m", "stallbench.cli", "observe", "--dsn", address, *map(str, arguments)]


def run(command: list[str], endpoint: Endpoint) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command, env=environment_of(endpoint), capture_output=True, text=True, check=False, timeout=240, cwd=PROJECT
    )


@pytest.fixture
def hostile(database: TestDatabase) -> Iterator[TestDatabase]:
    """A database with a queue's table, a user, a prepared transaction and an idle transaction, all of hostile names."""
    role, schema, table = (sql.Identifier(name) for name in (USER, SCHEMA, TABLE))
    with ExitStack() as stack:
        admin = stack.enter_context(connect(database.direct, "fixture"))
        admin.execute(sql.SQL("CREATE ROLE {} LOGIN SUPERUSER PASSWORD 'secret'").format(role))
        stack.callback(lambda: admin.execute(sql.SQL("DROP OWNED BY {}; DROP ROLE {}").format(role, role)))
        admin.execute(sql.SQL("CREATE SCHEMA {} CREATE TABLE {} (id bigint PRIMARY KEY, payload text)").format(schema, table))
        stack.callback(lambda: admin.execute(sql.SQL("DROP SCHEMA {} CASCADE").format(schema)))
        admin.execute(sql.SQL("INSERT INTO {}.{} SELECT n, 'x' FROM generate_series(1, 5000) AS n").format(schema, table))
        for _ in range(3):
            admin.execute(sql.SQL("UPDATE {}.{} SET payload = 'y'").format(schema, table))
        wait_for(lambda: read_counts(admin, "n_dead_tup") >= 10_000, "dead rows in the statistics")
        session = psycopg.connect(
            host=database.direct.host,
            port=database.direct.port,
            dbname=database.direct.database,
            user=USER,
            password="secret",
            application_name=HOSTILE,
        )
        stack.callback(session.close)
        session.execute("SELECT txid_current()")
        session.execute(sql.SQL("SELECT {} AS a FROM {}.{} LIMIT 1 /* {} */").format(HOSTILE, schema, table, sql.SQL(HOSTILE)))
        holder = psycopg.connect(
            host=database.direct.host, port=database.direct.port, dbname=database.direct.database, user=USER, password="secret"
        )
        with holder:
            holder.execute(sql.SQL("INSERT INTO {}.{} VALUES (0, 'z')").format(schema, table))
            holder.execute(sql.SQL("PREPARE TRANSACTION {}").format(GID))
        holder.close()
        stack.callback(lambda: roll_back_prepared(admin))
        yield database


def read_counts(admin: psycopg.Connection[tuple[object, ...]], column: str) -> int:
    query = sql.SQL("SELECT {} FROM pg_stat_user_tables WHERE schemaname = %s AND relname = %s").format(sql.Identifier(column))
    ((count,),) = admin.execute(query, (SCHEMA, TABLE)).fetchall()
    assert isinstance(count, int)
    return count


def roll_back_prepared(admin: psycopg.Connection[tuple[object, ...]]) -> None:
    for (gid,) in admin.execute("SELECT gid FROM pg_prepared_xacts WHERE database = current_database()").fetchall():
        admin.execute(sql.SQL("ROLLBACK PREPARED {}").format(gid))


def list_prepared(endpoint: Endpoint) -> list[tuple[object, ...]]:
    with connect(endpoint, "test") as connection:
        return connection.execute("SELECT gid FROM pg_prepared_xacts WHERE database = current_database()").fetchall()


def quoted_table() -> str:
    """Return the table's name as a user gives it to --table."""
    return ".".join('"' + part.replace('"', '""') + '"' for part in (SCHEMA, TABLE))


def test_a_report_that_is_redirected_has_nothing_hidden(hostile: TestDatabase) -> None:
    ended = run(observe(hostile.direct, "postgresql", "--once", "--table", quoted_table()), hostile.direct)
    assert ended.returncode == 0, ended.stderr
    assert find_hidden(ended.stdout + ended.stderr) == []
    assert "ROLLBACK PREPARED" in ended.stdout
    assert r"\u202e" in ended.stdout


@contextmanager
def terminal() -> Iterator[tuple[int, Callable[[], bytes]]]:
    """Give a pseudo-terminal, and what reads everything that was written to it after its writers have ended."""
    leader, follower = pty.openpty()
    fcntl.ioctl(follower, termios.TIOCSWINSZ, struct.pack("HHHH", 200, 200, 0, 0))
    written: list[bytes] = []

    def read() -> None:
        try:
            while part := os.read(leader, 65536):
                written.append(part)
        except OSError:  # the last writer has closed it
            pass

    reader = threading.Thread(target=read)
    reader.start()

    def finish() -> bytes:
        os.close(follower)
        reader.join(60)
        return b"".join(written)

    try:
        yield follower, finish
    finally:
        os.close(leader)


def test_a_terminal_gets_no_sequence_but_those_of_the_report(hostile: TestDatabase) -> None:
    with terminal() as (screen, finish):
        command = observe(hostile.direct, "postgresql", "--once", "--table", quoted_table())
        ended = subprocess.run(
            command, env=environment_of(hostile.direct), stdout=screen, stderr=screen, check=False, timeout=120, cwd=PROJECT
        )
        written = finish().decode()
    assert ended.returncode == 0, written
    without_styles = re.sub(r"\x1b\[[\d;]*m", "", written)
    assert find_hidden(without_styles, allowed="\r\n") == []
    assert "\r" not in without_styles.replace("\r\n", "")


def test_statements_that_are_offered_name_what_they_end(hostile: TestDatabase) -> None:
    with observer_of(hostile.direct, tables=(quoted_table(),)) as observer:
        observer.read()
        observation = observer.read(reads_everything=True)
    texts = [text for section in observation.sections for row in section.rows for text in row]
    texts += [text for one in observation.findings for text in (one.sentence, one.because, one.statement, one.where, one.caution)]
    texts += [text for one in observation.not_visible for text in (one.what, one.why, one.remedy)]
    assert find_hidden("".join((*texts, observation.title)), allowed="") == []
    (rollback,) = {one.statement for one in observation.findings if one.statement.startswith("ROLLBACK PREPARED")}
    assert list_prepared(hostile.direct) == [(GID,)]
    (queue,) = [row for section in observation.sections if section.title == "Queues" for row in section.rows]
    assert "U&" in queue[0]
    assert queue[1] == "5,000"
    with connect(hostile.direct, "test") as connection:
        connection.execute(rollback)
        # A vacuum is offered when nothing holds the dead rows any more: neither the idle transaction, nor what the replica last asked for.
        connection.execute(
            "SELECT pg_cancel_backend(pid), pg_terminate_backend(pid, 60000) FROM pg_stat_activity WHERE usename = %s", (USER,)
        )
        with observer_of(hostile.direct, tables=(quoted_table(),)) as observer:

            def find_vacuum() -> str | None:
                connection.execute("SELECT txid_current()")
                findings = observer.read(reads_everything=True).findings
                return next((one.statement for one in findings if one.statement.startswith("VACUUM")), None)

            connection.execute(wait_for(find_vacuum, "the offer of a vacuum"))
        wait_for(lambda: read_counts(connection, "vacuum_count") == 1, "the vacuum of this table")
    assert list_prepared(hostile.direct) == []


def test_an_observation_that_is_recorded_and_exposed_has_nothing_hidden(hostile: TestDatabase, tmp_path: Path) -> None:
    expected = tmp_path / "expected.toml"
    expected.write_text('[[expect]]\nmetric = "dead_tuples.max"\nat_least = 0\n')
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    options = ("--for", "8s", "--every", "2s", "--runs", tmp_path / "runs", "--expect", expected, "--expose", f"127.0.0.1:{port}")
    command = observe(hostile.direct, "postgresql", "--table", quoted_table(), *options)
    with subprocess.Popen(
        command, env=environment_of(hostile.direct), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=PROJECT
    ) as observing:

        def read_metrics() -> str:
            try:
                text = requests.get(f"http://127.0.0.1:{port}/metrics", timeout=5).text
            except requests.ConnectionError:
                assert observing.poll() is None, observing.communicate()
                return ""
            return text if "jo" in text else ""

        metrics = wait_for(read_metrics, "metrics of the table")
        output, errors = observing.communicate(timeout=240)
    assert observing.returncode == 0, errors
    assert find_hidden(metrics) == []
    assert find_hidden(output + errors) == []
    assert hidden_in_files(tmp_path / "runs") == {}
    (record,) = (tmp_path / "runs").glob("2*/run.json")
    assert r"jo\"\"bs\\u202e" in record.read_text()
    (samples,) = (tmp_path / "runs").glob("2*/samples/tables.csv")
    assert "dead_tuples" in samples.read_text()


@pytest.fixture
def answering_with_error() -> Iterator[int]:
    """A port on which every client of PostgreSQL is answered by an error with a hostile message."""
    fields = b"".join(
        kind + text.encode() + b"\0" for kind, text in ((b"S", "FATAL"), (b"C", "28000"), (b"M", HOSTILE), (b"D", HOSTILE))
    )
    answer = b"E" + struct.pack("!I", len(fields) + 5) + fields + b"\0"
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def serve() -> None:
            while True:
                try:
                    client, _ = listening.accept()
                except OSError:
                    return
                with client:
                    while (request := client.recv(4096)) and request[4:8] in (
                        struct.pack("!I", 80877103),
                        struct.pack("!I", 80877104),
                    ):
                        client.sendall(b"N")
                    client.sendall(answer)

        server = threading.Thread(target=serve)
        server.start()
        yield listening.getsockname()[1]
        listening.shutdown(socket.SHUT_RDWR)
        server.join(60)


def test_an_error_of_a_server_is_one_visible_line(answering_with_error: int) -> None:
    endpoint = Endpoint(engine="postgres", host="127.0.0.1", port=answering_with_error, database="x", user="x")
    ended = run(observe(endpoint, "postgresql", "--once"), endpoint)
    assert ended.returncode == 3
    assert find_hidden(ended.stdout + ended.stderr) == []
    (line,) = ended.stderr.splitlines()
    assert r"\x1b]52;c;cm0gLXJm\x07" in line


@pytest.fixture
def hostile_mariadb(empty_on: EmptyOn) -> Iterator[Endpoint]:
    """A database with a queue's table of a hostile name, a session whose user has one, and a row for which it lets another wait."""
    endpoint = empty_on("mariadb")
    table = "jobs\x1b[2J\x07\u202e\u200b"
    user = "us\x1b[1A\u202e"
    with ExitStack() as stack:
        admin, waiting = (stack.enter_context(closing(driver_of("mariadb").connect(endpoint, "fixture"))) for _ in range(2))
        with admin.cursor() as cursor:
            cursor.execute(f"CREATE TABLE `{table}` (id INT PRIMARY KEY, payload TEXT)")
            cursor.execute(f"INSERT INTO `{table}` VALUES (1, 'x'), (2, 'x')")
        named = endpoint.model_copy(update={"user": user})  # the server accepts any
        holder = stack.enter_context(closing(driver_of("mariadb").connect(named, "fixture")))
        holder.autocommit(False)
        with holder.cursor() as cursor:
            cursor.execute(f"SELECT * FROM `{table}` WHERE id = 1 FOR UPDATE /* {ESCAPES}{DIRECTIONS} */")

        def wait() -> None:
            with suppress(pymysql.Error), waiting.cursor() as cursor:
                cursor.execute(f"UPDATE `{table}` SET payload = %s WHERE id = 1", (HOSTILE,))

        waiter = threading.Thread(target=wait)
        waiter.start()
        yield endpoint
        holder.rollback()
        waiter.join(60)


def test_a_report_of_mariadb_has_nothing_hidden(hostile_mariadb: Endpoint) -> None:
    table = f"{hostile_mariadb.database}.jobs\x1b[2J\x07\u202e\u200b"
    ended = run(observe(hostile_mariadb, "mariadb", "--once", "--all", "--table", table), hostile_mariadb)
    assert ended.returncode == 0, ended.stderr
    assert find_hidden(ended.stdout + ended.stderr) == []
    assert r"jobs\x1b[2J\x07\u202e\u200b" in ended.stdout
    assert r"us\x1b[1A\u202e" in ended.stdout
    with innodb_observer_of(hostile_mariadb.model_copy(update={"user": "reader"}), tables=(table,)) as observer:
        observation = observer.read()
    (queue,) = section_of(observation, "Queues").rows
    assert queue[1] == "2"  # counted by the name that the server has
