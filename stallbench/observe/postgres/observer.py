"""Makes the observer of a PostgreSQL server: its sessions, its subjects, and what its errors mean."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import psycopg

from stallbench.engines.postgres import DRIVER
from stallbench.observe.address import PRIMARY, ObservedServers
from stallbench.observe.formatting import format_age
from stallbench.observe.observer import Observer
from stallbench.observe.postgres.autovacuum import AutovacuumSubject
from stallbench.observe.postgres.blocking import BlockingSubject
from stallbench.observe.postgres.connections import ConnectionsSubject
from stallbench.observe.postgres.horizon import HorizonSubject
from stallbench.observe.postgres.lock_waits import LockWaitsSubject
from stallbench.observe.postgres.notifications import NotificationsSubject
from stallbench.observe.postgres.operations import OperationsSubject
from stallbench.observe.postgres.pending_lists import PendingListsSubject
from stallbench.observe.postgres.queues import QueuesSubject
from stallbench.observe.postgres.replicas import ReplicasSubject
from stallbench.observe.postgres.replication import ReplicationSubject
from stallbench.observe.postgres.rights import RightsSubject
from stallbench.observe.postgres.rollbacks import RollbacksSubject
from stallbench.observe.postgres.session import ReadOnlySession
from stallbench.observe.postgres.statements import StatementsSubject
from stallbench.observe.postgres.subtransactions import SubtransactionsSubject
from stallbench.observe.postgres.table_reads import TableReadsSubject
from stallbench.observe.postgres.tables import TablesSubject
from stallbench.observe.postgres.wraparound import WraparoundSubject
from stallbench.observe.subject import Look, Subject, Unseen

if TYPE_CHECKING:
    from stallbench.observe.postgres.load import LoadSubject

_NOT_KNOWN = (
    psycopg.errors.UndefinedColumn,
    psycopg.errors.UndefinedTable,
    psycopg.errors.UndefinedFunction,
    psycopg.errors.UndefinedObject,
    psycopg.errors.FeatureNotSupported,
)


def make_postgres_observer(
    servers: ObservedServers, queues: QueuesSubject, log: Path | None, load: LoadSubject | None = None
) -> Observer:
    """Return the observer. ``queues``: finds and counts the queues. ``log``: the server's log. ``load``: records the load of the queue."""
    endpoints = {PRIMARY: servers.primary, **servers.replicas}
    return Observer(
        lambda name: ReadOnlySession(endpoints[name], name),
        tuple(servers.replicas),
        [
            RightsSubject(),
            ReplicasSubject(),
            LockWaitsSubject(),
            HorizonSubject(),
            queues,
            AutovacuumSubject(),
            TablesSubject(log),
            PendingListsSubject(),
            TableReadsSubject(),
            BlockingSubject(),
            SubtransactionsSubject(),
            OperationsSubject(),
            NotificationsSubject(),
            StatementsSubject(),
            RollbacksSubject(),
            ReplicationSubject(),
            ConnectionsSubject(),
            WraparoundSubject(),
            *([load] if load else []),
        ],
        describe=_describe,
        explain=_explain,
    )


def _describe(look: Look) -> str:
    endpoint, known = look.server.endpoint, look.known
    if not known.version:
        return f"{endpoint.host or 'local socket'}:{endpoint.port}"
    role = "replica" if known.is_replica else "primary"
    pooled = ", through a pooler" if look.server.is_pooled else ""
    return (
        f"{known.database} on {endpoint.host or 'local socket'}:{endpoint.port}: PostgreSQL {known.version.split()[0]}, {role}, "
        f"up for {format_age(known.up_s)}; read-only as {known.user}{pooled}"
    )


def _explain(subject: Subject, error: Exception) -> Unseen:
    words = DRIVER.describe(error)
    if isinstance(error, psycopg.errors.InsufficientPrivilege):
        return Unseen(what=subject.what, why=f"the server refuses: {words}", remedy="GRANT pg_monitor TO this user;")
    if isinstance(error, psycopg.errors.QueryCanceled):
        return Unseen(what=subject.what, why=f"the query was cancelled: {words}; it is repeated later")
    if isinstance(error, psycopg.errors.LockNotAvailable):
        return Unseen(what=subject.what, why="another session has locked one of its tables (ACCESS EXCLUSIVE)")
    if isinstance(error, _NOT_KNOWN):
        return Unseen(what=subject.what, why=f"this server does not have what the query needs: {words}")
    return Unseen(what=subject.what, why=words)
