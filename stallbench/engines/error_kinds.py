"""Kinds of errors, across engines: which codes mean a lost connection, a deadlock, a full disk.

A code is what `Driver.code` returns: an SQLSTATE (PostgreSQL), an error number (MariaDB, MySQL, Aerospike), a name (SQLite), or the name of
the driver's class if the engine gives no code. The codes of different engines do not overlap, so a code identifies the kind. The producer of a
library or an application reports a code, too, or the name of any class of its language: only names that drivers have for errors of the connection
count as such.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from enum import StrEnum

CONNECT = "connect"
"""The operation that opens a connection."""

NO_ANSWER_CODE = "NoAnswer"
"""The producer of a library or an application did not answer a batch in time."""

DEADLOCK_CODES = frozenset({"1213", "40P01"})
"""What InnoDB and PostgreSQL call a deadlock."""

MYSQL_LOCK_TIMEOUT = "1205"
LOCK_TIMEOUT_CODES = frozenset({MYSQL_LOCK_TIMEOUT, "55P03"})
"""The wait for a lock took longer than the session allows: MariaDB and MySQL, and PostgreSQL, also for ``NOWAIT``."""

MYSQL_STATEMENT_TIMEOUT_CODES = frozenset({"1969", "3024"})
"""A statement took longer than the session allows: MariaDB and MySQL."""

POSTGRES_SERIALIZATION_FAILURE = "40001"
"""PostgreSQL ended a transaction that it cannot order with the others; also one on a replica that conflicts with the recovery there."""

POSTGRES_TOO_MANY_CONNECTIONS = "53300"
TOO_MANY_CONNECTIONS_CODES = frozenset({POSTGRES_TOO_MANY_CONNECTIONS, "1040", "1203", "1226"})
"""The server refuses a connection because there are too many. Of MariaDB and MySQL: in total, of one user by the server's limit (1203), and of
one user by the account's own limit (1226)."""

MYSQL_SESSION_ENDED_CODES = frozenset({"1053", "1158", "1159", "1160", "1161", "1927", "2006", "2013", "2055", "3169", "4031"})
"""MariaDB's and MySQL's session is over: the server shuts down, it killed or timed out the session, or the connection broke."""


class ErrorKind(StrEnum):
    """What an error says about the server or the session; the value is its name for users."""

    CONNECTION_LOST = "connection lost"
    CANNOT_CONNECT = "cannot connect"
    """The server, or the network before it, does not take a new connection: down, starting, or all connections are in use."""
    SESSION_STATE_LOST = "session state lost"
    """The session lacks what an earlier call of the same client left in it, like a prepared statement; or has another client's."""
    READ_ONLY = "read-only server"
    LOCK_TIMEOUT = "lock timeout"
    """The server, or the client's own statement timeout, ended the wait for a lock."""
    DEADLOCK = "deadlock"
    SCHEMA_CHANGED = "schema changed"
    """A statement met a table that is not as it was when the statement was prepared or the transaction began."""
    DISK_FULL = "disk full"
    LIMIT_REACHED = "limit reached"
    """A limit of the server itself, such as PostgreSQL's transaction ids."""
    VALUE_OUT_OF_RANGE = "value out of range"
    """A column cannot hold the value, like a counter of attempts."""
    NO_ANSWER = "no answer"
    """A library's producer did not answer: it may wait for the server or for a lock, or repeat what the server refuses."""


_LOST_IN_OTHER_PROCESSES = (
    *("ConnectionResetError", "ConnectionAbortedError", "BrokenPipeError"),  # Python
    *("ECONNRESET", "ECONNABORTED", "EPIPE", "ETIMEDOUT"),  # Node
    *("ConnectionBad", "UnableToSend", "ConnectionFailed"),  # Ruby: pg, Active Record
    *("SQLRecoverableException", "SQLNonTransientConnectionException"),  # JDBC
    *("*pgconn.connLockError", "*net.OpError"),  # Go: pgx's "conn closed", and the network
)
"""Names of errors, without a code of the server, by which drivers in other processes report a lost connection; some also one that cannot be opened."""

_CANNOT_CONNECT_IN_OTHER_PROCESSES = (
    *("ConnectionRefusedError", "PoolTimeout"),  # Python: the language, psycopg_pool
    *("ECONNREFUSED", "EHOSTUNREACH", "ENETUNREACH", "ENOTFOUND"),
    *("ConnectionNotEstablished", "ConnectionTimeoutError"),
    "SQLTransientConnectionException",  # HikariCP: no connection in time
    "*pgconn.ConnectError",
)
"""The same of a connection that cannot be opened, or that a pool of connections could not give in time."""


_CODES: Mapping[ErrorKind, Collection[str]] = {
    ErrorKind.CONNECTION_LOST: (
        *("08000", "08003", "08006", "57P01", "57P02", "57P05", "25P03", "OperationalError", "InterfaceError"),
        *MYSQL_SESSION_ENDED_CODES,
        "1317",  # the statement was killed: in MySQL also the last answer to a session that was killed
        *("ConnectionError", "TimeoutError", "ConnectionLostError"),
        *("9", "11", "-10"),
        *_LOST_IN_OTHER_PROCESSES,
    ),
    ErrorKind.CANNOT_CONNECT: (
        *TOO_MANY_CONNECTIONS_CODES,
        *("08001", "08004", "57P03", "ConnectionTimeout"),
        *("2002", "2003"),
        *("BusyLoadingError", "MaxConnectionsError"),
        *_CANNOT_CONNECT_IN_OTHER_PROCESSES,
    ),
    ErrorKind.SESSION_STATE_LOST: ("08P01", "26000", "34000", "42P05", "1243", "NoScriptError"),
    ErrorKind.READ_ONLY: ("25006", "1290", "1836", "ReadOnlyError"),
    ErrorKind.LOCK_TIMEOUT: (*LOCK_TIMEOUT_CODES, *MYSQL_STATEMENT_TIMEOUT_CODES, "57014", "SQLITE_BUSY"),
    ErrorKind.DEADLOCK: DEADLOCK_CODES,
    ErrorKind.SCHEMA_CHANGED: ("0A000", "1412"),
    ErrorKind.DISK_FULL: ("53100", "1021", "1114", "SQLITE_FULL"),
    ErrorKind.LIMIT_REACHED: ("54000",),
    ErrorKind.VALUE_OUT_OF_RANGE: ("22003", "1264"),
    ErrorKind.NO_ANSWER: (NO_ANSWER_CODE,),
}
WAITS_FOR_SERVER = frozenset({ErrorKind.CONNECTION_LOST, ErrorKind.CANNOT_CONNECT, ErrorKind.LOCK_TIMEOUT})
"""What makes a client wait: a fault that explains one of these explains `ErrorKind.NO_ANSWER`, too."""

LOST_CONNECTION_CODES = frozenset(_CODES[ErrorKind.CONNECTION_LOST])
"""Of errors of an operation other than `CONNECT`."""

_KINDS = {code: kind for kind, codes in _CODES.items() for code in codes}


def find_error_kind(code: str, operation: str) -> ErrorKind | None:
    """Return the kind of an error by its ``code`` and the ``operation`` that raised it; none if the code is not known.

    A driver has one class for a connection that breaks and for one that cannot be opened; the operation distinguishes the two.
    """
    kind = _KINDS.get(code)
    return ErrorKind.CANNOT_CONNECT if kind is ErrorKind.CONNECTION_LOST and operation == CONNECT else kind
