"""Makes the observer of a PostgreSQL server: its sessions, its subjects, and what its errors mean."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

import psycopg

from stallbench.engines.postgres.driver import DRIVER
from stallbench.observe.address import PRIMARY, ObservedServers
from stallbench.observe.diagnostic import Diagnostic, NotVisible, Reading
from stallbench.observe.formatting import format_age
from stallbench.observe.observer import Observer
from stallbench.observe.postgres.autovacuum import AutovacuumDiagnostic
from stallbench.observe.postgres.blocking import BlockingDiagnostic
from stallbench.observe.postgres.connections import ConnectionsDiagnostic
from stallbench.observe.postgres.horizon import HorizonDiagnostic
from stallbench.observe.postgres.lock_waits import LockWaitsDiagnostic
from stallbench.observe.postgres.notifications import NotificationsDiagnostic
from stallbench.observe.postgres.operations import OperationsDiagnostic
from stallbench.observe.postgres.pending_lists import PendingListsDiagnostic
from stallbench.observe.postgres.queues import QueuesDiagnostic
from stallbench.observe.postgres.replicas import ReplicasDiagnostic
from stallbench.observe.postgres.replication import ReplicationDiagnostic
from stallbench.observe.postgres.rights import RightsDiagnostic
from stallbench.observe.postgres.rollbacks import RollbacksDiagnostic
from stallbench.observe.postgres.session import ReadOnlySession
from stallbench.observe.postgres.statements import StatementsDiagnostic
from stallbench.observe.postgres.subtransactions import SubtransactionsDiagnostic
from stallbench.observe.postgres.table_reads import TableReadsDiagnostic
from stallbench.observe.postgres.tables import TablesDiagnostic
from stallbench.observe.postgres.wraparound import WraparoundDiagnostic

if TYPE_CHECKING:
    from stallbench.observe.postgres.load import LoadDiagnostic

_NOT_KNOWN = (
    psycopg.errors.UndefinedColumn,
    psycopg.errors.UndefinedTable,
    psycopg.errors.UndefinedFunction,
    psycopg.errors.UndefinedObject,
    psycopg.errors.FeatureNotSupported,
)


def make_postgres_observer(
    servers: ObservedServers, queues: QueuesDiagnostic, log: Path | None, load: LoadDiagnostic | None = None
) -> Observer:
    """Return the observer. ``queues``: finds and counts the queues. ``log``: the server's log. ``load``: records the load of the queue."""
    return _make_observer(
        servers,
        [
            RightsDiagnostic(),
            ReplicasDiagnostic(),
            LockWaitsDiagnostic(),
            HorizonDiagnostic(),
            queues,
            AutovacuumDiagnostic(),
            TablesDiagnostic(log),
            PendingListsDiagnostic(),
            TableReadsDiagnostic(),
            BlockingDiagnostic(),
            SubtransactionsDiagnostic(),
            OperationsDiagnostic(),
            NotificationsDiagnostic(),
            StatementsDiagnostic(),
            RollbacksDiagnostic(),
            ReplicationDiagnostic(),
            ConnectionsDiagnostic(),
            WraparoundDiagnostic(),
            *([load] if load else []),
        ],
    )


def make_postgres_observer_since(servers: ObservedServers, since: datetime, log: Path | None) -> Observer:
    """Return an observer of what the server still knows of the time from ``since`` on, for one reading. ``log``: the server's log."""
    from stallbench.observe.postgres.since.database_counters import DatabaseCountersDiagnostic
    from stallbench.observe.postgres.since.logged_settings import LoggedSettingsDiagnostic
    from stallbench.observe.postgres.since.longest_executions import LongestExecutionsDiagnostic
    from stallbench.observe.postgres.since.resets import ResetsDiagnostic
    from stallbench.observe.postgres.since.server_log import ServerLogDiagnostic
    from stallbench.observe.postgres.since.vacuums import VacuumsDiagnostic

    return _make_observer(
        servers,
        [
            RightsDiagnostic(),
            ResetsDiagnostic(since),
            DatabaseCountersDiagnostic(since),
            LongestExecutionsDiagnostic(since),
            VacuumsDiagnostic(since),
            ServerLogDiagnostic(since, log),
            ReplicasDiagnostic(),
            HorizonDiagnostic(),
            ReplicationDiagnostic(),
            LoggedSettingsDiagnostic(),
        ],
    )


def _make_observer(servers: ObservedServers, diagnostics: Sequence[Diagnostic]) -> Observer:
    endpoints = {PRIMARY: servers.primary, **servers.replicas}
    return Observer(
        lambda name: ReadOnlySession(endpoints[name], name),
        tuple(servers.replicas),
        diagnostics,
        describe=_describe,
        explain=_explain,
    )


def _describe(reading: Reading) -> str:
    endpoint, state = reading.server.endpoint, reading.state
    if not state.version:
        return f"{endpoint.host or 'local socket'}:{endpoint.port}"
    role = "replica" if state.is_replica else "primary"
    pooled = ", through a pooler" if reading.server.is_pooled else ""
    return (
        f"{state.database} on {endpoint.host or 'local socket'}:{endpoint.port}: PostgreSQL {state.version.split()[0]}, {role}, "
        f"up for {format_age(state.up_s)}; read-only as {state.user}{pooled}"
    )


def _explain(subject: Diagnostic, error: Exception) -> NotVisible:
    words = DRIVER.describe(error)
    if isinstance(error, psycopg.errors.InsufficientPrivilege):
        return NotVisible(what=subject.what, why=f"the server refuses: {words}", remedy="GRANT pg_monitor TO this user;")
    if isinstance(error, psycopg.errors.QueryCanceled):
        return NotVisible(what=subject.what, why=f"the query was cancelled: {words}; it is repeated later")
    if isinstance(error, psycopg.errors.LockNotAvailable):
        return NotVisible(what=subject.what, why="another session has locked one of its tables (ACCESS EXCLUSIVE)")
    if isinstance(error, _NOT_KNOWN):
        return NotVisible(what=subject.what, why=f"this server does not have what the query needs: {words}")
    return NotVisible(what=subject.what, why=words)
