"""What the servers report about a longrunner: the evidence that it holds the horizon, and that it is gone."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import asdict
from pathlib import Path
from typing import Any

import psycopg

from stallbench.engines import driver_of
from stallbench.engines.collectors.horizon import Holder, read_horizon
from stallbench.engines.collectors.innodb_views import read_open_transactions
from stallbench.engines.postgres import connect
from stallbench.records.injections import Evidence
from stallbench.servers.cluster import Server
from stallbench.waiting import wait_until

_SQLITE_LOCK = re.compile(r"POSIX +ADVISORY +READ +(?P<pid>\d+) \w+:\w+:(?P<inode>\d+) (?P<first>\d+) ")
_SQLITE_READ_LOCKS = range(123, 128)
"""WAL_READ_LOCK(0) to (4) of SQLite's file format, "WAL-Index Locks"."""
_SQLITE_LOOK_S, _SQLITE_LOOK_EVERY_S = 1.0, 0.02
"""A reader has no lock between two transactions."""


def find_on_postgres(servers: Sequence[Server], on: str, name: str, evidence: Mapping[str, Any]) -> Evidence | None:
    """Return what the servers report about longrunner ``name`` on server ``on``; none if they do not name it.

    ``evidence``: what the longrunner reported when it began to hold. ``holds_primary``: whether it holds back the primary's vacuum.
    """
    with ExitStack() as stack:
        connections = {server.name: stack.enter_context(connect(server.direct, "verify")) for server in servers}
        replicas = {server: connection for server, connection in connections.items() if server != "primary"}
        for holder in read_horizon(connections["primary"], replicas):
            if _is(holder, on, name, evidence):
                return {**asdict(holder), "holds_primary": not holder.catalog_only}
        return _read_open_snapshot(connections[on], on, name)


def find_on_innodb(servers: Sequence[Server], on: str, name: str, evidence: Mapping[str, Any]) -> Evidence | None:
    """Return the same for a longrunner on InnoDB. An open transaction without a read view keeps no deleted rows."""
    server = next(server for server in servers if server.name == on)
    with closing(driver_of(server.direct.engine).connect(server.direct, "verify")) as connection:
        for transaction in read_open_transactions(connection):
            if transaction.thread_id == evidence.get("pid"):
                has_view = transaction.view_age_xids is not None
                return {
                    "source": on,
                    "pid": transaction.thread_id,
                    "state": transaction.state,
                    "age_s": transaction.age_s,
                    "age_xids": transaction.view_age_xids,
                    "has_read_view": has_view,
                    "holds_primary": has_view and server.role == "primary",
                }
    return None


def find_on_sqlite(servers: Sequence[Server], on: str, name: str, evidence: Mapping[str, Any]) -> Evidence | None:
    """Return the lock of a reader of a SQLite database in WAL mode, as the kernel reports it. A reader has one of five locks, each on one byte of the
    file with the suffix ``-shm``.
    """
    server = next(server for server in servers if server.name == on)
    inode = Path(f"{server.direct.database}-shm").stat().st_ino

    def find_lock() -> Evidence | None:
        for lock in _SQLITE_LOCK.finditer(Path("/proc/locks").read_text()):
            pid, first = int(lock["pid"]), int(lock["first"])
            if (pid, int(lock["inode"])) == (evidence.get("pid"), inode) and first in _SQLITE_READ_LOCKS:
                return {"source": on, "pid": pid, "lock": first, "holds_primary": True}
        return None

    return wait_until(find_lock, within_s=_SQLITE_LOOK_S, every_s=_SQLITE_LOOK_EVERY_S)


def _is(holder: Holder, on: str, name: str, evidence: Mapping[str, Any]) -> bool:
    """Whether a holder that the server names is this longrunner: everything that identifies the holder matches."""
    if holder.kind != evidence.get("kind"):
        return False
    if holder.kind == "backend":
        return holder.source == on and holder.application == f"stallbench:longrunner:{name}"
    return holder.key == evidence.get("key")


def _read_open_snapshot(server: psycopg.Connection[tuple[Any, ...]], on: str, name: str) -> Evidence | None:
    """Find a longrunner that holds its own server's snapshot but, without feedback, not the primary's horizon."""
    row = server.execute(
        "SELECT pid, state, extract(epoch FROM pg_catalog.now() - xact_start)::double precision FROM pg_catalog.pg_stat_activity "
        "WHERE application_name = %s AND backend_xmin IS NOT NULL ORDER BY xact_start LIMIT 1",
        (f"stallbench:longrunner:{name}",),
    ).fetchone()
    if row is None:
        return None
    return {"source": on, "pid": row[0], "state": row[1], "age_s": row[2], "holds_primary": False}
