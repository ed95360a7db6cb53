"""`stallbench observe` on MariaDB and MySQL, where an XA transaction was prepared and then abandoned."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from threading import Thread
from typing import Any

import pytest
from pydantic import SecretStr

from stallbench.engines import driver_of
from stallbench.observe.observer import Observation
from stallbench.records.endpoint import Endpoint
from tests.integration.conftest import EmptyOn
from tests.integration.observed import cannot_see, finding_about, innodb_observer_of, section_of
from tests.waiting import wait_for

pytestmark = pytest.mark.integration

GTRID = "orders-4711"
XID = f"X'{GTRID.encode().hex()}',X'{b'branch'.hex()}',7"


@pytest.fixture(params=["mariadb", "mysql"])
def server(empty_on: EmptyOn, request: pytest.FixtureRequest) -> Iterator[Endpoint]:
    """A server with a table, one row of which an abandoned XA transaction has changed."""
    endpoint = empty_on(request.param)
    execute(endpoint, "CREATE TABLE jobs (id int PRIMARY KEY, attempts int)", "INSERT INTO jobs VALUES (1, 0), (2, 0)")
    execute(
        endpoint,
        f"XA START '{GTRID}', 'branch', 7",
        "UPDATE jobs SET attempts = 1 WHERE id = 1",
        f"XA END '{GTRID}', 'branch', 7",
        f"XA PREPARE '{GTRID}', 'branch', 7",
    )
    yield endpoint
    if prepared_on(endpoint):
        execute(endpoint, f"XA ROLLBACK {XID}")


def execute(endpoint: Endpoint, *statements: str) -> None:
    with closing(driver_of("mariadb").connect(endpoint, "test")) as connection, connection.cursor() as cursor:
        for statement in statements:
            cursor.execute(statement)


def prepared_on(endpoint: Endpoint) -> list[Any]:
    with closing(driver_of("mariadb").connect(endpoint, "test")) as connection, connection.cursor() as cursor:
        cursor.execute("XA RECOVER")
        return list(cursor.fetchall())


def look_at(endpoint: Endpoint) -> Observation:
    with innodb_observer_of(endpoint) as observer:
        return observer.read()


def wait_for_finding(endpoint: Endpoint, words: str) -> Observation:
    return wait_for(lambda: one if words in str((one := look_at(endpoint)).findings) else None, words)


@contextmanager
def waiting_for_it(endpoint: Endpoint, statement: str) -> Iterator[None]:
    """Execute a statement that waits for the XA transaction, which the end of the block ends."""
    waiting = Thread(target=execute, args=(endpoint, statement))
    waiting.start()
    try:
        yield
    finally:
        execute(endpoint, f"XA ROLLBACK {XID}")
        waiting.join()


def test_it_is_named_with_the_statement_that_ends_it(server: Endpoint) -> None:
    observation = wait_for_finding(server, "XA transaction is prepared")
    finding = finding_about(observation, f"1 XA transaction is prepared and belongs to no session: '{GTRID}'.")
    assert "has changed 1 row and locks 1 row" in finding.sentence
    assert finding.statement == f"XA ROLLBACK {XID};"
    assert section_of(observation, "Prepared XA transactions").rows == ((f"'{GTRID}'", finding.statement),)
    execute(server, finding.statement)
    wait_for(lambda: "XA" not in str(look_at(server).findings), "its end")


def test_an_identifier_of_bytes_that_are_no_text_is_shown_as_a_statement_needs_it(server: Endpoint) -> None:
    binary = "X'ff00fe',X'',1"
    execute(server, f"XA START {binary}", "UPDATE jobs SET attempts = 1 WHERE id = 2", f"XA END {binary}", f"XA PREPARE {binary}")
    try:
        observation = wait_for_finding(server, "2 XA transactions are prepared")
        assert (binary, f"XA ROLLBACK {binary};") in section_of(observation, "Prepared XA transactions").rows
        assert not finding_about(observation, "2 XA transactions are prepared and belong").statement, "the table has both"
    finally:
        execute(server, f"XA ROLLBACK {binary}")


def test_a_session_that_it_blocks_is_not_told_to_kill_session_0(server: Endpoint) -> None:
    with waiting_for_it(server, "UPDATE jobs SET attempts = 2 WHERE id = 1"):
        observation = wait_for_finding(server, "without a session")
    finding = finding_about(observation, "A transaction without a session (as a prepared XA transaction is) blocks 1 session")
    assert not finding.statement
    assert "KILL 0" not in str(observation)


def test_a_change_of_the_table_that_waits_for_it_is_no_lock_of_an_unknown_holder(server: Endpoint) -> None:
    if server.engine == "mariadb":
        pytest.skip("its performance schema does not record metadata locks by default")
    with waiting_for_it(server, "ALTER TABLE jobs ADD COLUMN queue int"):
        observation = wait_for_finding(server, "without a session")
    finding = finding_about(observation, "A transaction without a session (as a prepared XA transaction is) blocks 1 session")
    assert "metadata lock" in section_of(observation, "Blocked sessions").rows[1][3]
    assert not finding.statement
    assert "does not record metadata locks" not in cannot_see(observation)


def test_a_user_who_may_not_list_them_learns_that_one_is_there(server: Endpoint) -> None:
    if server.engine == "mariadb":
        pytest.skip("MariaDB lists them for every user")
    execute(
        server,
        "CREATE USER reader@'127.0.0.1' IDENTIFIED BY 'read'",
        "GRANT PROCESS ON *.* TO reader@'127.0.0.1'",
        f"GRANT SELECT ON {server.database}.* TO reader@'127.0.0.1'",
    )
    try:
        reader = server.model_copy(update={"user": "reader", "password": SecretStr("read")})
        observation = wait_for_finding(reader, "XA transaction is prepared")
        assert not finding_about(observation, "XA transaction is prepared").statement
        assert "GRANT XA_RECOVER_ADMIN ON *.* TO 'reader'@'127.0.0.1';" in cannot_see(observation)
    finally:
        execute(server, "DROP USER reader@'127.0.0.1'")
