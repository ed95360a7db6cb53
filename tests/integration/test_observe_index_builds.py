"""What `observe` says of an index build that waits: on a real server, also to a user who may not see other users' sessions."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import pytest
from pydantic import SecretStr

from stallbench.engines.postgres.driver import connect
from stallbench.observe.diagnostic import Finding
from stallbench.records.endpoint import Endpoint
from tests.integration.conftest import Connection, TestDatabase
from tests.integration.observed import look_at, section_of
from tests.waiting import wait_for

pytestmark = pytest.mark.integration

BUILD = b"CREATE INDEX CONCURRENTLY new_index ON waited_for (n)"


@pytest.fixture
def build(database: TestDatabase) -> Iterator[tuple[Connection, Connection]]:
    """An index build that waits for a writer, which waits for a session that has locked a table: the head of the chain, and the writer."""
    with ExitStack() as stack:
        head, writer, builder = (stack.enter_context(connect(database.direct, name)) for name in ("head", "writer", "builder"))
        head.execute("CREATE TABLE locked (n int)")
        head.execute("CREATE TABLE waited_for (n int)")
        head.execute("BEGIN")
        head.execute("LOCK TABLE locked")
        writer.execute("BEGIN")
        writer.execute("INSERT INTO waited_for VALUES (1)")
        writer.pgconn.send_query(b"SELECT * FROM locked")
        builder.pgconn.send_query(BUILD)
        yield head, writer
        for connection in (builder, writer):  # psycopg does not know of the statements that they execute
            head.execute("SELECT pg_terminate_backend(%s)", (connection.info.backend_pid,))
            connection.pgconn.finish()


@contextmanager
def reader_of(database: TestDatabase) -> Iterator[Endpoint]:
    """A user without any right to see other users' sessions."""
    with connect(database.direct, "fixture") as admin:
        admin.execute("CREATE ROLE reader_of_builds LOGIN PASSWORD 'secret'")
        try:
            yield database.direct.model_copy(update={"user": "reader_of_builds", "password": SecretStr("secret")})
        finally:
            admin.execute("DROP ROLE reader_of_builds")


def test_the_session_at_the_head_of_the_chain_is_the_one_to_end(
    database: TestDatabase, build: tuple[Connection, Connection]
) -> None:
    head, writer = build

    def find() -> Finding | None:
        findings = [one for one in look_at(database.direct).findings if "CREATE INDEX CONCURRENTLY on" in one.sentence]
        return findings[0] if findings and "which itself waits for" in findings[0].sentence else None

    finding = wait_for(find, "a finding about the build")
    assert finding.statement == f"SELECT pg_terminate_backend({head.info.backend_pid});"
    assert f"session {writer.info.backend_pid}" in finding.sentence
    assert f"which itself waits for session {head.info.backend_pid}" in finding.sentence


def test_a_build_of_another_user_is_shown_without_what_is_hidden(
    database: TestDatabase, build: tuple[Connection, Connection]
) -> None:
    with reader_of(database) as reader:

        def find() -> list[tuple[str, ...]]:
            return [row for row in section_of(look_at(reader), "Long operations").rows if row[0].startswith("index build on")]

        assert wait_for(find, "the build")[0][0].endswith(": unknown")


def test_two_sessions_that_block_each_other_end_the_search(database: TestDatabase) -> None:
    """The server has not broken the deadlock yet; the search for the head of the chain must end."""
    with connect(database.direct, "admin") as admin, ExitStack() as stack:
        admin.execute("CREATE TABLE one (n int)")
        admin.execute("CREATE TABLE other (n int)")
        admin.execute("CREATE TABLE waited_for (n int)")
        first, second, builder = (stack.enter_context(connect(database.direct, name)) for name in ("first", "second", "builder"))
        for connection, table in ((first, "one"), (second, "other")):
            connection.execute("SET deadlock_timeout = '1min'")
            connection.execute("BEGIN")
            connection.execute("INSERT INTO waited_for VALUES (1)")
            connection.execute(f"LOCK TABLE {table}")
        first.pgconn.send_query(b"LOCK TABLE other")
        second.pgconn.send_query(b"LOCK TABLE one")
        builder.pgconn.send_query(BUILD)
        try:
            wait_for(
                lambda: [one for one in look_at(database.direct).findings if "CREATE INDEX CONCURRENTLY on" in one.sentence],
                "a finding about the build",
            )
        finally:
            for connection in (builder, first, second):
                admin.execute("SELECT pg_terminate_backend(%s)", (connection.info.backend_pid,))
                connection.pgconn.finish()


def test_a_prepared_transaction_is_named_with_the_statement_that_ends_it(database: TestDatabase) -> None:
    """The session that prepared it has ended, but the progress view of the build still has its process id."""
    with connect(database.direct, "admin") as admin, connect(database.direct, "builder") as builder, ExitStack() as stack:
        admin.execute("CREATE TABLE waited_for (n int PRIMARY KEY)")
        admin.execute("INSERT INTO waited_for VALUES (1)")
        with connect(database.direct, "preparer") as preparer:
            preparer.execute("BEGIN")
            preparer.execute("UPDATE waited_for SET n = 2")
            preparer.execute("PREPARE TRANSACTION 'it''s abandoned'")
            gone = preparer.info.backend_pid
        stack.callback(admin.execute, "ROLLBACK PREPARED 'it''s abandoned'")
        builder.pgconn.send_query(BUILD)
        stack.callback(builder.pgconn.finish)
        stack.callback(admin.execute, f"SELECT pg_terminate_backend({builder.info.backend_pid})")

        def find() -> Finding | None:
            """The two are looked at one after the other, so one may be there without the other at first."""
            expected = ("it's abandoned blocks 1 session", "waits for prepared transaction it's abandoned;")
            named = [one for one in look_at(database.direct).findings if all(words in one.sentence for words in expected)]
            return named[0] if named else None

        finding = wait_for(find, "a finding about what blocks the build")
        assert finding.statement == "ROLLBACK PREPARED 'it''s abandoned';"
        assert not any(str(gone) in f"{one.sentence} {one.statement}" for one in look_at(database.direct).findings)
