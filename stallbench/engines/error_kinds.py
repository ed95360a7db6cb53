"""Kinds of errors, across engines: which codes mean a lost connection, a deadlock, a full disk.

Which codes an engine has for each kind is in `Engine.error_codes`; `stallbench.engines.error_codes` puts them together. The producer of a library or an
application reports a code, too, or the name of any class of its language: only names that drivers have for errors of the connection count as such.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from enum import StrEnum

CONNECT = "connect"
"""The operation that opens a connection."""

NO_ANSWER_CODE = "NoAnswer"
"""The producer of a library or an application did not answer a batch in time."""


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


CODES_OF_OTHER_PROCESSES: Mapping[ErrorKind, Collection[str]] = {
    ErrorKind.CONNECTION_LOST: _LOST_IN_OTHER_PROCESSES,
    ErrorKind.CANNOT_CONNECT: _CANNOT_CONNECT_IN_OTHER_PROCESSES,
    ErrorKind.NO_ANSWER: (NO_ANSWER_CODE,),
}
"""What is reported without an engine's code."""

WAITS_FOR_SERVER = frozenset({ErrorKind.CONNECTION_LOST, ErrorKind.CANNOT_CONNECT, ErrorKind.LOCK_TIMEOUT})
"""What makes a client wait: a fault that explains one of these explains `ErrorKind.NO_ANSWER`, too."""
