"""What PostgreSQL's errors say: SQLSTATEs, and the classes of psycopg for errors that have none."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from stallbench.engines.error_kinds import ErrorKind

DEADLOCK = "40P01"
LOCK_TIMEOUT = "55P03"
"""The wait for a lock took longer than the session allows, also for ``NOWAIT``."""
SERIALIZATION_FAILURE = "40001"
"""A transaction was ended that cannot be ordered with the others; also one on a replica that conflicts with the recovery there."""
TOO_MANY_CONNECTIONS = "53300"

CODES: Mapping[ErrorKind, Collection[str]] = {
    ErrorKind.CONNECTION_LOST: (
        *("08000", "08003", "08006", "57P01", "57P02", "57P05", "25P03"),
        *("OperationalError", "InterfaceError"),
    ),
    ErrorKind.CANNOT_CONNECT: (TOO_MANY_CONNECTIONS, "08001", "08004", "57P03", "ConnectionTimeout"),
    ErrorKind.SESSION_STATE_LOST: ("08P01", "26000", "34000", "42P05"),
    ErrorKind.READ_ONLY: ("25006",),
    ErrorKind.LOCK_TIMEOUT: (LOCK_TIMEOUT, "57014"),
    ErrorKind.DEADLOCK: (DEADLOCK,),
    ErrorKind.SCHEMA_CHANGED: ("0A000",),
    ErrorKind.DISK_FULL: ("53100",),
    ErrorKind.LIMIT_REACHED: ("54000",),
    ErrorKind.VALUE_OUT_OF_RANGE: ("22003",),
}
