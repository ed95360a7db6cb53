"""`stallbench observe` where text is not UTF-8: in a database without an encoding, and beside a database with another one."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from stallbench.engines.postgres.driver import connect
from stallbench.observe.postgres.session import ReadOnlySession
from stallbench.observe.postgres.sessions import read_sessions
from stallbench.records.endpoint import Endpoint
from tests.integration.conftest import Connection, TestDatabase
from tests.integration.observed import cannot_see, look_at, section_of, text_of
from tests.waiting import wait_for

pytestmark = pytest.mark.integration

OpenConnection = Callable[..., Connection]
IN_LATIN1 = b"CREATE TABLE written (n int) -- caf\xe9"


@contextmanager
def database_without_an_encoding(database: TestDatabase) -> Iterator[Endpoint]:
    """What ``initdb`` makes where no language is set: the server stores whatever bytes a client sends."""
    name = f"{database.direct.database}_ascii"
    with connect(database.direct, "fixture") as admin:
        admin.execute("CREATE EXTENSION pg_stat_statements")
        admin.execute(f"CREATE DATABASE {name} TEMPLATE template0 ENCODING 'SQL_ASCII' LC_COLLATE 'C' LC_CTYPE 'C'")
        try:
            yield database.direct.model_copy(update={"database": name})
        finally:
            (oid,) = admin.execute("SELECT oid::bigint FROM pg_database WHERE datname = %s", (name,)).fetchone() or (None,)
            admin.execute(f"DROP DATABASE {name} WITH (FORCE)")
            # What was counted in it would stay, and no other database on this server could read the texts of statements.
            admin.execute("SELECT pg_stat_statements_reset(0, %s, 0)", (oid,))


def test_a_database_without_an_encoding_is_observed(database: TestDatabase, open_connection: OpenConnection) -> None:
    with database_without_an_encoding(database) as endpoint:
        writer = leave_open(open_connection(endpoint, "report"), IN_LATIN1)

        holders = wait_for_holders(endpoint, writer)

        assert '"stallbench:report"' in holders
        assert read_statement(endpoint, writer) == "CREATE TABLE written (n int) -- caf\N{REPLACEMENT CHARACTER}"


def test_a_statement_in_another_database_s_encoding_hides_no_holder(
    database: TestDatabase, open_connection: OpenConnection
) -> None:
    with database_without_an_encoding(database) as elsewhere:
        other = leave_open(open_connection(elsewhere, "old application"), IN_LATIN1)
        writer = leave_open(open_connection(database.direct, "report"), b"CREATE TABLE written (n int)")

        wait_for_holders(database.direct, other, writer)

        assert read_statement(database.direct, other) == "<not shown: it is in SQL_ASCII>"
        assert read_statement(database.direct, writer) == "CREATE TABLE written (n int)"


def test_a_counted_statement_in_another_database_s_encoding_leaves_the_figures_readable(database: TestDatabase) -> None:
    with database_without_an_encoding(database) as elsewhere:
        with connect(elsewhere, "old application") as other:
            other.execute(IN_LATIN1)
        with connect(database.direct, "application") as application:
            application.execute("SELECT pg_sleep(0.1)")

        observation = look_at(database.direct)

        statements = section_of(observation, "Statements")
        assert any(re.fullmatch(r"statement -?\d+ [\d.,]+ (ms|s)", f"{row[0]} {row[3]}") for row in statements.rows), (
            statements.rows
        )
        assert "cannot show: invalid byte sequence" in cannot_see(observation)
        (remedy,) = [one.remedy for one in observation.not_visible if one.what.startswith("texts of statements")]
        assert remedy.endswith(f"what was counted in database {elsewhere.database}")
        with connect(database.direct, "admin") as admin:
            admin.execute(remedy.split(";")[0].encode())
        assert "pg_sleep" in text_of(section_of(look_at(database.direct), "Statements"))


def test_the_bench_s_own_connections_read_text_of_a_database_without_an_encoding(database: TestDatabase) -> None:
    with database_without_an_encoding(database) as endpoint, connect(endpoint, "test") as connection:
        read = connection.execute(
            """SELECT chr(195) || chr(169), name 'n', varchar 'v', "char" 'c', '{"a": 1}'::jsonb, ARRAY['x']"""
        ).fetchone()

    assert read == ("\u00e9", "n", "v", "c", '{"a": 1}', ["x"])


def leave_open(connection: Connection, statement: bytes) -> Connection:
    """Begin a transaction, and leave it idle after this statement."""
    connection.execute("BEGIN")
    connection.execute(statement)
    return connection


def wait_for_holders(endpoint: Endpoint, *sessions: Connection) -> str:
    """Look until all are shown as holders of the horizon."""

    def see_all() -> str | None:
        observation = look_at(endpoint)
        assert "who holds the horizon" not in cannot_see(observation)
        holders = text_of(section_of(observation, "Who holds"))
        return holders if all(f"session {one.info.backend_pid} " in holders for one in sessions) else None

    return wait_for(see_all, "the holders")


def read_statement(endpoint: Endpoint, session: Connection) -> str | None:
    reader = ReadOnlySession(endpoint)
    try:
        return read_sessions(reader, [session.info.backend_pid])[session.info.backend_pid].query
    finally:
        reader.close()
