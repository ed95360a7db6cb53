"""An error's code identifies its kind, whatever the engine; a code that no engine declares has none."""

from __future__ import annotations

from unittest.mock import Mock

import psycopg
import pymysql
import pytest
import redis

from stallbench.engines import driver_of
from stallbench.engines.error_codes import find_error_kind
from stallbench.engines.error_kinds import ErrorKind
from stallbench.injection.faults import find_faults
from stallbench.queues.mysql_session import MySQLSession


@pytest.mark.parametrize(
    ("engine", "error", "kind"),
    [
        ("postgres", psycopg.OperationalError("server closed the connection unexpectedly"), ErrorKind.CONNECTION_LOST),
        ("postgres", psycopg.errors.AdminShutdown(), ErrorKind.CONNECTION_LOST),
        ("postgres", psycopg.errors.DeadlockDetected(), ErrorKind.DEADLOCK),
        ("postgres", psycopg.errors.LockNotAvailable(), ErrorKind.LOCK_TIMEOUT),
        ("postgres", psycopg.errors.DiskFull(), ErrorKind.DISK_FULL),
        ("postgres", psycopg.errors.ReadOnlySqlTransaction(), ErrorKind.READ_ONLY),
        ("postgres", psycopg.errors.InvalidSqlStatementName(), ErrorKind.SESSION_STATE_LOST),
        ("postgres", psycopg.errors.UniqueViolation(), None),
        ("mariadb", pymysql.OperationalError(2013, "Lost connection during query"), ErrorKind.CONNECTION_LOST),
        ("mariadb", pymysql.OperationalError(1213, "Deadlock found"), ErrorKind.DEADLOCK),
        ("mysql", pymysql.OperationalError(1205, "Lock wait timeout exceeded"), ErrorKind.LOCK_TIMEOUT),
        ("mysql", pymysql.ProgrammingError(1064, "You have an error in your SQL syntax"), None),
        ("redis", redis.ConnectionError("Connection closed by server"), ErrorKind.CONNECTION_LOST),
        ("redis", redis.ReadOnlyError(), ErrorKind.READ_ONLY),
    ],
)
def test_a_drivers_error_has_a_kind(engine: str, error: Exception, kind: ErrorKind | None) -> None:
    assert find_error_kind(driver_of(engine).code(error), "claim") is kind


@pytest.mark.parametrize("engine", ["postgres", "mariadb", "mysql", "sqlite"])
@pytest.mark.parametrize("code", ["ShopIsClosedError", "ValueError", "Error", "P0100", "23505", "HY000"])
def test_an_error_of_an_application_is_not_called_one_of_its_connection(engine: str, code: str) -> None:
    driver = driver_of(engine)
    assert find_error_kind(driver.code(driver.make_error(code, "the shop is closed")), "enqueue") is None


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        ("ConnectionResetError", ErrorKind.CONNECTION_LOST),  # Python
        ("ConnectionRefusedError", ErrorKind.CANNOT_CONNECT),
        ("PoolTimeout", ErrorKind.CANNOT_CONNECT),  # psycopg_pool
        ("ECONNRESET", ErrorKind.CONNECTION_LOST),  # Node
        ("ECONNREFUSED", ErrorKind.CANNOT_CONNECT),
        ("UnableToSend", ErrorKind.CONNECTION_LOST),  # Ruby's pg
        ("ConnectionNotEstablished", ErrorKind.CANNOT_CONNECT),  # Active Record
        ("SQLTransientConnectionException", ErrorKind.CANNOT_CONNECT),  # HikariCP
        ("*pgconn.connLockError", ErrorKind.CONNECTION_LOST),  # Go's pgx
        ("08001", ErrorKind.CANNOT_CONNECT),
        ("08006", ErrorKind.CONNECTION_LOST),
    ],
)
def test_an_error_of_the_connection_is_known_in_every_language(code: str, kind: ErrorKind) -> None:
    assert find_error_kind(code, "enqueue") is kind


@pytest.mark.parametrize(
    ("message", "code"),
    [
        ("connection failed: FATAL:  sorry, too many clients already", "53300"),
        ('connection failed: FATAL:  too many connections for role "others"', "53300"),
        ("connection failed: FATAL:  remaining connection slots are reserved for roles with the SUPERUSER attribute", "53300"),
        ("connection failed: Connection refused", "OperationalError"),
    ],
)
def test_postgres_refusal_of_one_connection_too_many_has_its_code_although_libpq_has_none(message: str, code: str) -> None:
    assert driver_of("postgres").code(psycopg.OperationalError(message)) == code


@pytest.mark.parametrize(
    ("number", "is_lost"), [(1213, False), (1205, False), (1317, False), (2006, True), (2055, True), (1927, True), (4031, True)]
)
def test_a_mysql_session_that_the_server_has_ended_is_lost(number: int, is_lost: bool) -> None:
    session = MySQLSession(Mock(open=True))
    assert session.is_connection_lost(pymysql.OperationalError(number, "")) is is_lost
    assert session.is_conflict(pymysql.OperationalError(number, "")) is (number in (1213, 1205))


@pytest.mark.parametrize("code", ["OperationalError", "ConnectionError", "57P03", "1040", "53300"])
def test_a_connection_that_cannot_be_opened_was_not_lost(code: str) -> None:
    assert find_error_kind(code, "connect") is ErrorKind.CANNOT_CONNECT


@pytest.mark.parametrize(
    "kind", ["crash", "restart", "power_loss", "promote", "terminate_backends", "down", "timeout", "reset_peer"]
)
def test_a_fault_that_cuts_connections_explains_that_they_were_lost(kind: str) -> None:
    assert ErrorKind.CONNECTION_LOST in find_faults()[kind].explains_errors


@pytest.mark.parametrize("kind", ["kill", "poison_jobs", "long_jobs", "burst", "clock_skew", "autovacuum_starvation"])
def test_a_fault_that_leaves_the_server_and_its_locks_alone_explains_no_error(kind: str) -> None:
    assert find_faults()[kind].explains_errors == frozenset()
