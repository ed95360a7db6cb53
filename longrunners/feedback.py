"""Acts as a replica: gives a physical slot an xmin, as hot_standby_feedback does, and disconnects."""

from __future__ import annotations

import struct
import time

import psycopg
from psycopg.pq import ExecStatus

from longrunners.postgres_longrunner import Connection
from stallbench.engines.driver import CONNECT_TIMEOUT_S
from stallbench.engines.postgres.driver import address
from stallbench.processes.role import CannotContinueError
from stallbench.records.endpoint import Endpoint
from stallbench.waiting import wait_until

_WITHIN_S = 5.0
_POLL_S = 0.02
_START_OF_2000_S = 946_684_800
"""The epoch of PostgreSQL's timestamps, in seconds since 1970."""
_STATE = "SELECT xmin IS NOT NULL, active FROM pg_catalog.pg_replication_slots WHERE slot_name = %s"


def send_feedback(endpoint: Endpoint, application_name: str, slot: str, connection: Connection) -> None:
    """Stream through ``slot`` as a replica would, report the current snapshot as its oldest one, and disconnect.

    Returns when ``connection``, to the same server, sees that the slot has an xmin and is inactive again. Raises
    `CannotContinueError` if the slot does not take the feedback, `psycopg.Error` if the user may not replicate.
    """
    row = connection.execute(
        "SELECT pg_catalog.pg_snapshot_xmin(pg_catalog.pg_current_snapshot())::pg_catalog.text, pg_catalog.pg_current_wal_flush_lsn()::pg_catalog.text"
    ).fetchone()
    assert row is not None
    full_xmin, position = int(row[0]), str(row[1])
    with psycopg.connect(
        **address(endpoint),
        application_name=application_name,
        connect_timeout=CONNECT_TIMEOUT_S,
        replication="database",
        autocommit=True,
    ) as replication:
        pgconn = replication.pgconn
        started = pgconn.exec_(f"START_REPLICATION SLOT {slot} PHYSICAL {position}".encode())
        if started.status != ExecStatus.COPY_BOTH:
            raise CannotContinueError(f"slot {slot} cannot be streamed from: {started.get_error_message()}")
        pgconn.put_copy_data(_feedback(full_xmin))
        if not wait_until(lambda: pgconn.flush() == 0, within_s=_WITHIN_S, every_s=_POLL_S):
            raise CannotContinueError(f"slot {slot}: the server did not read the feedback within {_WITHIN_S:.0f} s")
        _wait_for(connection, slot, (True, True), "did not take the feedback")
        pgconn.finish()
    _wait_for(connection, slot, (True, False), "was not released")


def _feedback(full_xmin: int) -> bytes:
    """Return a hot standby feedback message: the time, xmin and its epoch, and no catalog xmin (streaming
    replication protocol).
    """
    now_us = int((time.time() - _START_OF_2000_S) * 1e6)
    return b"h" + struct.pack("!qIIII", now_us, full_xmin & 0xFFFF_FFFF, full_xmin >> 32, 0, 0)


def _wait_for(connection: Connection, slot: str, state: tuple[bool, bool], problem: str) -> None:
    def is_reached() -> bool:
        return connection.execute(_STATE, (slot,)).fetchone() == state

    if not wait_until(is_reached, within_s=_WITHIN_S, every_s=_POLL_S):
        raise CannotContinueError(f"slot {slot} {problem} within {_WITHIN_S:.0f} s")
