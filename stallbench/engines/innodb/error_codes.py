"""What errors of MariaDB and MySQL say: the numbers of the server and of the client library, and the classes of PyMySQL for errors that have none."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from stallbench.engines.error_kinds import ErrorKind

DEADLOCK = "1213"
LOCK_TIMEOUT = "1205"
"""The wait for a lock took longer than the session allows."""
STATEMENT_TIMEOUTS = frozenset({"1969", "3024"})
"""A statement took longer than the session allows: MariaDB and MySQL."""
TOO_MANY_CONNECTIONS = frozenset({"1040", "1203", "1226"})
"""In total, of one user by the server's limit (1203), and of one user by the account's own limit (1226)."""
SESSION_ENDED = frozenset({"1053", "1158", "1159", "1160", "1161", "1927", "2006", "2013", "2055", "3169", "4031"})
"""The session is over: the server shuts down, it killed or timed out the session, or the connection broke."""

CODES: Mapping[ErrorKind, Collection[str]] = {
    ErrorKind.CONNECTION_LOST: (
        *SESSION_ENDED,
        "1317",  # the statement was killed: in MySQL also the last answer to a session that was killed
        *("OperationalError", "InterfaceError"),
    ),
    ErrorKind.CANNOT_CONNECT: (*TOO_MANY_CONNECTIONS, "2002", "2003"),
    ErrorKind.SESSION_STATE_LOST: ("1243",),
    ErrorKind.READ_ONLY: ("1290", "1836"),
    ErrorKind.LOCK_TIMEOUT: (LOCK_TIMEOUT, *STATEMENT_TIMEOUTS),
    ErrorKind.DEADLOCK: (DEADLOCK,),
    ErrorKind.SCHEMA_CHANGED: ("1412",),
    ErrorKind.DISK_FULL: ("1021", "1114"),
    ErrorKind.VALUE_OUT_OF_RANGE: ("1264",),
}
