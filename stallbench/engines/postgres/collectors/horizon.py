"""Who holds the horizon? Finds the oldest snapshot that vacuum must respect, and the sessions that hold it, on any server.

A holder is a backend of the primary, a prepared transaction, a replication slot, or a replica's feedback. One of another database is a holder only
through a replica's feedback, which asks for every transaction that is open on the primary, whatever its database; or through the snapshots of this
database, each of which reaches back to the oldest transaction that was open when it was taken, whatever its database. The feedback comes from a backend on
the replica, which is the session to end. With a slot, the feedback is in ``pg_replication_slots.xmin`` and not in ``pg_stat_replication``: a
search that looks only there finds no holder.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from stallbench.engines.collectors.collector import Collector, samples_of
from stallbench.engines.collectors.connections import APPLICATION_PREFIX, NotMeasuredError
from stallbench.engines.collectors.holders import MOST_RECORDED, WORTH_RECORDING_S
from stallbench.engines.postgres.driver import Connection
from stallbench.records.samples import Sample

# As `ComputeXidHorizons` of PostgreSQL 14 to 18 has it. What vacuum may remove from the tables of a database depends on the snapshots and transaction
# ids of the sessions, and on the transaction ids of the prepared transactions, of this database. Those of other databases count for the shared
# catalogs only. Of every database counts what a replica's feedback asks for, which is the xmin of a walsender without a database, or of a slot.
# The transaction of a vacuum holds nothing back, and neither does a slot that was invalidated. On a replica all databases count.
# A walsender with a database has a snapshot of its own, like any session: it copies a table to a new subscriber, or has exported the snapshot with
# which another session copies. The server does not say when the transaction of a walsender began; its snapshot is taken just before its last command.
# Who is no member of pg_read_all_stats sees the ids of a session's transaction, and neither its kind nor its times.
_ON_PRIMARY = """
SELECT 'backend' AS kind, pid::pg_catalog.text || ':' || coalesce(extract(epoch FROM backend_start)::bigint::pg_catalog.text, '') AS key,
  pid, application_name, state,
  extract(epoch FROM pg_catalog.clock_timestamp() - CASE WHEN backend_type = 'walsender' THEN query_start ELSE xact_start END)::double precision AS age_s,
  greatest(
    CASE WHEN datname = pg_catalog.current_database() OR pg_catalog.pg_is_in_recovery() THEN pg_catalog.age(backend_xmin) END,
    pg_catalog.age(backend_xid)
  ) AS age_xids,
  '' AS via, false AS catalog_only, datname, datname <> pg_catalog.current_database() AND NOT pg_catalog.pg_is_in_recovery() AS is_elsewhere
FROM pg_catalog.pg_stat_activity
WHERE (
  backend_xid IS NOT NULL
  OR backend_xmin IS NOT NULL AND (datname = pg_catalog.current_database() OR pg_catalog.pg_is_in_recovery())
)
AND pid <> pg_catalog.pg_backend_pid() AND datid IS NOT NULL AND leader_pid IS NULL AND backend_type IS DISTINCT FROM 'parallel worker'
AND pid NOT IN (SELECT pid FROM pg_catalog.pg_stat_progress_vacuum)
UNION ALL
SELECT 'prepared', gid, NULL, '', 'prepared', extract(epoch FROM pg_catalog.clock_timestamp() - prepared)::double precision,
  pg_catalog.age(transaction), '', false, database, database <> pg_catalog.current_database()
FROM pg_catalog.pg_prepared_xacts
UNION ALL
SELECT 'slot', slot_name, active_pid, '', CASE WHEN active THEN 'active' ELSE 'inactive' END, NULL,
  pg_catalog.age(coalesce(xmin, catalog_xmin)), '', xmin IS NULL, database, false
FROM pg_catalog.pg_replication_slots
WHERE (xmin IS NOT NULL OR catalog_xmin IS NOT NULL) AND wal_status IS DISTINCT FROM 'lost'
UNION ALL
SELECT 'replica', application_name, pid, application_name, state, NULL, pg_catalog.age(backend_xmin), 'feedback', false, NULL, false
FROM pg_catalog.pg_stat_replication
WHERE backend_xmin IS NOT NULL AND pid NOT IN (SELECT pid FROM pg_catalog.pg_stat_activity WHERE datid IS NOT NULL)
"""
_SLOT_USERS = """
SELECT slot.slot_name, walsender.application_name
FROM pg_catalog.pg_replication_slots AS slot
JOIN pg_catalog.pg_stat_replication AS walsender ON walsender.pid = slot.active_pid
"""
_OLDEST_ON_REPLICA = """
SELECT pid::pg_catalog.text || ':' || coalesce(extract(epoch FROM backend_start)::bigint::pg_catalog.text, ''), pid, application_name, state,
  extract(epoch FROM pg_catalog.clock_timestamp() - xact_start)::double precision, pg_catalog.age(backend_xmin), datname
FROM pg_catalog.pg_stat_activity
WHERE backend_xmin IS NOT NULL AND datid IS NOT NULL AND coalesce(backend_type, 'client backend') = 'client backend'
AND pid <> pg_catalog.pg_backend_pid()
ORDER BY pg_catalog.age(backend_xmin) DESC, xact_start
"""


SNAPSHOT = "snapshot"
"""How a transaction of another database reaches this one if it needs no feedback: through the snapshots that are taken here."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Holder:
    """A holder of the primary's horizon."""

    kind: str
    """``backend``, ``prepared``, ``slot`` or ``replica`` (a feedback behind which no backend was found)."""
    source: str
    """Server that it is on."""
    key: str
    """The same for as long as it stays: a backend's pid and start, a slot's name, a prepared transaction's gid."""
    pid: int | None
    application: str
    state: str
    age_s: float | None
    """Seconds since its transaction began; none for slots and feedback, which have no such time, and if the server hides it from the user."""
    age_xids: int
    """How many transactions have begun since the oldest that it may still want to see."""
    via: str = ""
    """How one on a replica, or in another database, reaches this database: ``feedback``, ``slot:<name>`` or ``snapshot``; empty if it needs nothing
    for that."""
    catalog_only: bool = False
    """Whether it keeps only the system catalogs from being vacuumed, as a logical slot does."""
    database: str = ""
    """Of its session or prepared transaction; empty for physical slots and feedback, which have none."""
    is_explained: bool = False
    """Whether it is feedback that reports no more than another holder's transaction, which is open on the primary."""


def read_horizon(
    primary: Any,
    replicas: Mapping[str, Any],
    name: str = "primary",
) -> list[Holder]:
    """Return every holder of the primary's horizon, the oldest first; holders of catalogs only come last.

    Connections are psycopg's, or anything else on which ``execute(query).fetchall()`` returns the rows.
    ``replicas``: connections to the replicas by the application name under which they stream. ``name``: the primary's. The horizon is that of
    the database of ``primary``'s connection.
    """
    holders, elsewhere, feedbacks = [], [], []
    for row in primary.execute(_ON_PRIMARY).fetchall():
        kind, key, pid, application, state, age_s, age_xids, via, catalog_only, database, is_elsewhere = row
        holder = Holder(
            kind=kind,
            source=name,
            key=key,
            pid=pid,
            application=application or "",
            state=state or "",
            age_s=age_s,
            age_xids=age_xids,
            via=via,
            catalog_only=catalog_only,
            database=database or "",
        )
        if kind == "replica":
            feedbacks.append(holder)
        elif kind == "slot" and pid is not None:
            feedbacks.append(replace(holder, via=f"slot:{key}"))
        elif is_elsewhere:
            elsewhere.append(holder)
        else:
            holders.append(holder)
    # Feedback is the oldest of all that is open on the primary and on the replica, as the replica has replayed it.
    # While snapshots of this database overlap, there is always one that reaches back to a transaction elsewhere.
    of_snapshots = {one.age_xids for one in holders if one.kind == "backend"}
    for holder in elsewhere:
        through = [one for one in feedbacks if not one.catalog_only and one.age_xids >= holder.age_xids]
        if through:
            holders.append(replace(holder, via=through[0].via))
        elif holder.age_xids in of_snapshots:
            holders.append(replace(holder, via=SNAPSHOT))
    open_here = {one.age_xids for one in (*holders, *elsewhere) if one.kind in ("backend", "prepared")}
    slot_users = dict(primary.execute(_SLOT_USERS).fetchall()) if any(one.kind == "slot" for one in feedbacks) else {}
    for feedback in feedbacks:
        replica = feedback.application if feedback.kind == "replica" else slot_users.get(feedback.key, "")
        holders += _look_behind(
            replace(feedback, is_explained=feedback.age_xids in open_here and not feedback.catalog_only), replica, replicas
        )
    return sorted(holders, key=_by_age)


def _by_age(holder: Holder) -> tuple[bool, int, bool, float]:
    """The oldest first; of those that reach back equally far, the one that the others reach back to: it began first, and is no feedback."""
    return holder.catalog_only, -holder.age_xids, holder.kind in ("slot", "replica"), -(holder.age_s or 0)


def _look_behind(feedback: Holder, replica: str, replicas: Mapping[str, Any]) -> list[Holder]:
    """Return the backends on a replica whose snapshot the feedback reports; and the feedback itself, if none of them is that old."""
    connection = replicas.get(replica)
    rows = connection.execute(_OLDEST_ON_REPLICA).fetchall() if connection is not None else []
    behind = [
        Holder(
            kind="backend",
            source=replica,
            key=key,
            pid=pid,
            application=application or "",
            state=state or "",
            age_s=age_s,
            age_xids=min(age_xids, feedback.age_xids) if rank == 0 else age_xids,
            via=feedback.via,
            database=database or "",
        )
        for rank, (key, pid, application, state, age_s, age_xids, database) in enumerate(rows)
    ]
    return behind or [feedback]


class HorizonCollector(Collector):
    """Records the holders that have held the horizon for a while, and always the oldest one."""

    name = "horizon"

    def sample(self) -> Iterator[Sample]:
        """Yield a set of samples for each holder, by rank, and the horizon's age.

        If a replica cannot be reached, its feedback is still recorded as a holder, and the error is reported.
        """
        primary = self.document.primary
        connection = self.connections.to(primary)
        replicas: dict[str, Connection] = {}
        failures = []
        for server in self.document.servers:
            if server.role == "replica":
                try:
                    replicas[server.name] = self.connections.to(server)
                except NotMeasuredError as error:
                    failures.append(str(error))
        found = [
            holder
            for holder in read_horizon(connection, replicas, primary.name)
            if not (holder.application.startswith(APPLICATION_PREFIX) and is_momentary(holder.age_s))
        ]
        holding = [holder for holder in found if not holder.catalog_only]
        for rank, holder in enumerate(found[:MOST_RECORDED]):
            oldest = bool(holding) and holder is holding[0]
            if oldest or holder.age_s is None or holder.age_s >= WORTH_RECORDING_S:
                yield from _samples_of_holder(rank, holder)
        values = {
            "holders": len(holding),
            "horizon_age_xids": holding[0].age_xids if holding else 0,
            "horizon_age_s": max((holder.age_s or 0.0 for holder in holding), default=0.0),
        }
        yield from samples_of(primary.name, "server", values)
        if failures:
            raise NotMeasuredError("; ".join(failures))


def is_momentary(age_s: float | None) -> bool:
    """Whether a transaction can be a read of the bench's own, which ends in milliseconds. Its name says nothing: every user names his sessions."""
    return age_s is not None and age_s < WORTH_RECORDING_S


def _samples_of_holder(rank: int, holder: Holder) -> Iterable[Sample]:
    return samples_of(
        holder.source,
        f"holder:{holder.kind}:{holder.key}",
        {
            "rank": rank,
            "kind": holder.kind,
            "pid": holder.pid,
            "application": holder.application,
            "state": holder.state,
            "age_s": holder.age_s,
            "age_xids": holder.age_xids,
            "via": holder.via,
            "catalog_only": int(holder.catalog_only),
        },
    )
