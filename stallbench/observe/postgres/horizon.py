"""Who holds the horizon, since when, and how, and which statement ends it?"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from stallbench.collectors.connections import APPLICATION_PREFIX
from stallbench.collectors.horizon import Holder, read_horizon
from stallbench.observe.formatting import format_age, format_count, format_plural, format_since
from stallbench.observe.postgres.blocking import describe_session, end_head
from stallbench.observe.postgres.session import APPLICATION
from stallbench.observe.postgres.sessions import SessionDetails, end_prepared, end_session, read_sessions
from stallbench.observe.postgres.slots import Slot, describe_loss_of_slot, read_slots, statement_to_drop
from stallbench.observe.subject import HORIZON, Finding, Look, Remedy, Section, Severity, Subject, Unseen
from stallbench.observe.thresholds import BRIEF_S, LONG_TRANSACTION_S, MANY_XIDS, VERY_LONG_TRANSACTION_S

_MOST_SHOWN = 6
_PREPARED_S = 10.0
"""A transaction manager commits what it has prepared within milliseconds."""
_OLD_FEEDBACK_XIDS = 100_000
"""The feedback of a replica on which nothing is wrong is some seconds old."""
_MEANS = "VACUUM cannot remove any row that has died since, so every claim reads past more dead rows"
_PREPARED = """
SELECT gid, owner, database, extract(epoch FROM pg_catalog.clock_timestamp() - prepared)::double precision FROM pg_catalog.pg_prepared_xacts
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class PreparedTransaction:
    """A transaction that waits for its COMMIT PREPARED or ROLLBACK PREPARED."""

    owner: str
    database: str
    age_s: float


class HorizonSubject(Subject):
    """Reads every holder on the server, and, behind a replica's feedback, on the replicas whose addresses were given."""

    name = HORIZON
    what = "who holds the horizon"
    position = 10

    def look(self, look: Look) -> Section:
        """Return the oldest holders, and a finding for each that holds the horizon for long."""
        replicas = look.known.replicas
        holders = [one for one in read_horizon(look.server, replicas, "this server") if not _is_own(one)]
        lasting = [one for one in holders if one.kind != "backend" or (one.age_s or 0) >= BRIEF_S]
        shown = lasting[:_MOST_SHOWN]
        prepared = _read_prepared(look) if any(one.kind == "prepared" for one in shown) else {}
        details = _read_details(look, shown, replicas)
        causes = _find_causes(look, shown)
        look.known.holder = look.known.holder_statement = ""
        slots = _read_inactive_slots(look, holders)
        restarting = {slot.name for slot in slots if slot.is_briefly_inactive}
        synced = {slot.name for slot in slots if slot.is_synced}
        holding = [one for one in shown if not one.catalog_only and not (one.kind == "slot" and one.key in restarting)]
        oldest = next((one for one in holding if _is_long(one)), None)
        if oldest:
            look.known.holder = _describe(oldest, {}, prepared)
            cause = causes.get(oldest.key)
            own = _end(oldest, details.get(oldest.key), prepared)[0] if _names_it(oldest) else ""
            look.known.holder_statement = cause.remedy.statement if cause else own
        judged = [(rank, one) for rank, one in enumerate(holding) if _is_long(one) or one.kind == "prepared"]
        described = [one.pid for _, one in judged if one.kind == "backend" and not one.via and one.key in details]
        look.known.described[self.name] = frozenset(pid for pid in described if pid is not None)
        rows = [
            (
                _describe(one, details, prepared),
                format_since(one.age_s) if one.age_s is not None else "",
                format_age(one.age_s) if one.age_s is not None else "",
                format_count(one.age_xids),
                _describe_way(one),
                causes[one.key].words
                if one.key in causes
                else _advise(one, details.get(one.key), prepared, synced=synced, restarting=restarting),
            )
            for one in shown
        ]
        more = len(lasting) - len(shown)
        seen = "" if look.known.sees_all else " that this user may see"
        return Section(
            title="Who holds the horizon",
            columns=("holder", "since", "age", "transactions", "how", "statement that ends it"),
            rows=tuple(rows),
            sentences=(f"and {more} more",) if more else () if rows else (f"No transaction{seen} is older than a second.",),
            says_nothing=not rows,
            has_statements=True,
            findings=tuple(judge_holder(one, details, prepared, rank, causes.get(one.key)) for rank, one in judged),
            unseen=_name_unseen(shown),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Cause:
    """For whom a holder waits, which can end nothing before that."""

    words: str
    """Like ``waits for session 12``."""
    remedy: Remedy


def _find_causes(look: Look, holders: list[Holder]) -> dict[str, Cause]:
    """Return the cause of each holder on this server that waits for a lock, by the holder's key."""
    waits = look.known.lock_waits
    heads = {
        one.key: waits.find_heads(one.pid)
        for one in holders
        if one.kind == "backend" and not one.via and one.pid is not None and one.pid in waits.by_session
    }
    sessions = read_sessions(look.server, [head for of_one in heads.values() for head in of_one if isinstance(head, int)])
    return {
        key: Cause(
            words=f"waits for {describe_session(of_one[0], {})}" if of_one else "is in a deadlock",
            remedy=end_head(of_one[0], waits, sessions) if of_one else Remedy(),
        )
        for key, of_one in heads.items()
    }


def _is_own(holder: Holder) -> bool:
    return holder.application == APPLICATION or holder.application.startswith(APPLICATION_PREFIX)


def _read_inactive_slots(look: Look, holders: list[Holder]) -> list[Slot]:
    """Return the slots if an inactive one is a holder: its consumer may only be restarting."""
    return read_slots(look.server) if any(one.kind == "slot" and one.state == "inactive" for one in holders) else []


def _names_it(holder: Holder) -> bool:
    """Whether it is known what to end: a replica's feedback hides the session."""
    return holder.kind in ("backend", "prepared") or holder.state == "inactive"


def _advise(
    holder: Holder,
    session: SessionDetails | None,
    prepared: Mapping[str, PreparedTransaction],
    *,
    synced: Collection[str],
    restarting: Collection[str],
) -> str:
    """Return the statement that ends the holder, or where to look for it. ``synced``, ``restarting``: names of slots."""
    if holder.kind == "slot" and holder.key in synced:
        return "see the primary"
    if holder.kind == "slot" and holder.key in restarting:
        return "may be restarting"
    if _names_it(holder):
        return _end(holder, session, prepared)[0]
    return "see the subscriber" if holder.catalog_only else "see the replica"


def _is_long(holder: Holder) -> bool:
    if holder.age_s is None:
        return holder.state == "inactive" or holder.age_xids >= _OLD_FEEDBACK_XIDS
    return holder.age_s >= (_PREPARED_S if holder.kind == "prepared" else LONG_TRANSACTION_S) or holder.age_xids >= MANY_XIDS


def judge_holder(
    holder: Holder,
    details: Mapping[str, SessionDetails],
    prepared: Mapping[str, PreparedTransaction],
    rank: int,
    cause: Cause | None = None,
) -> Finding:
    """Return what a holder means, and how to end it. ``rank``: 0 for the oldest. ``details`` and ``prepared``: by the holder's key.

    ``cause``: for whom it waits, if it does; that is to be ended, and not the holder.
    """
    is_urgent = rank == 0 and ((holder.age_s or 0) >= VERY_LONG_TRANSACTION_S or holder.age_xids >= MANY_XIDS)
    severity = Severity.CRITICAL if is_urgent else Severity.WARNING if _is_long(holder) else Severity.NOTE
    since = f" for {format_age(holder.age_s)}, since {format_since(holder.age_s)}" if holder.age_s is not None else ""
    verb = "holds the horizon" if rank == 0 else "also keeps dead rows"
    session = details.get(holder.key)
    doing = f" It is {session.doing}." if session and session.doing else ""
    statement, where, caution = _end(holder, session, prepared)
    if cause:
        statement, where, caution = cause.remedy.statement, cause.remedy.where, cause.remedy.caution
        doing += f" It {cause.words}."
    named = _describe(holder, details, prepared)
    return Finding(
        severity=severity,
        subject=HorizonSubject.name,
        about=holder.key,
        sentence=f"{named[0].upper()}{named[1:]} {verb}{since} ({format_plural(holder.age_xids, 'transaction')} ago).{doing}",
        because=_MEANS if rank == 0 else "",
        statement=statement,
        where=where,
        caution=caution,
        only_shows=not _names_it(holder),
    )


def _end(holder: Holder, session: SessionDetails | None, prepared: Mapping[str, PreparedTransaction]) -> tuple[str, str, str]:
    """Return the statement that ends the holder, where to execute it, and what else it does."""
    on_replica = f"on {holder.source}" if holder.via else ""
    match holder.kind:
        case "backend":
            remedy = end_session(holder.pid or 0, session)
            return remedy.statement, on_replica, remedy.caution
        case "prepared":
            one = prepared.get(holder.key)
            where = f"in database {one.database}, as {one.owner} or a superuser" if one else ""
            remedy = end_prepared(holder.key)
            return remedy.statement, where, remedy.caution
        case "slot" if holder.state == "inactive":
            return statement_to_drop(holder.key), "", describe_loss_of_slot(is_logical=holder.catalog_only)
        case _:
            return (
                "SELECT pid, xact_start, query FROM pg_catalog.pg_stat_activity WHERE backend_xmin IS NOT NULL ORDER BY xact_start;",
                f"on the replica {holder.application or holder.key}",
                "shows the session there whose snapshot it is; end that with pg_catalog.pg_terminate_backend(pid)",
            )


def _describe(holder: Holder, details: Mapping[str, SessionDetails], prepared: Mapping[str, PreparedTransaction]) -> str:
    match holder.kind:
        case "backend":
            session = details.get(holder.key)
            name = session.name if session else f"session {holder.pid}"
            if session and session.is_dump:
                name = name.replace("session", "pg_dump, session", 1)
            elif session and session.is_walsender:
                name = f"copy of tables to a subscriber of logical replication, {name}"
            return f"{name} on {holder.source}" if holder.via else name
        case "prepared":
            one = prepared.get(holder.key)
            return f"prepared transaction {holder.key}" + (f" (database {one.database}, owner {one.owner})" if one else "")
        case "slot":
            return f"{holder.state} replication slot {holder.key}"
        case _:
            return f"replica {holder.application}"


def _describe_way(holder: Holder) -> str:
    if holder.catalog_only:
        return "slot, system catalogs only"
    if holder.via == "feedback":
        return "hot_standby_feedback of a replica"
    if holder.via:
        return f"hot_standby_feedback through {holder.via.replace(':', ' ')}"
    return {"backend": holder.state or "open transaction", "prepared": "belongs to no session", "slot": "slot"}[holder.kind]


def _read_prepared(look: Look) -> dict[str, PreparedTransaction]:
    return {
        gid: PreparedTransaction(owner=owner, database=database, age_s=age_s)
        for gid, owner, database, age_s in look.server.execute(_PREPARED).fetchall()
    }


def _read_details(look: Look, holders: list[Holder], replicas: Mapping[str, Any]) -> dict[str, SessionDetails]:
    """Return the sessions of holders by the holder's key."""
    found: dict[str, SessionDetails] = {}
    for source in {one.source for one in holders if one.kind == "backend"}:
        of_source = [one for one in holders if one.kind == "backend" and one.source == source]
        sessions = read_sessions(replicas.get(source, look.server), [one.pid for one in of_source])
        found |= {one.key: sessions[one.pid] for one in of_source if one.pid in sessions}
    return found


def _name_unseen(holders: list[Holder]) -> tuple[Unseen, ...]:
    behind = sorted({one.application or one.key for one in holders if one.via and one.kind != "backend" and not one.catalog_only})
    return tuple(
        Unseen(
            what=f"which session on replica {name} holds the horizon",
            why="only the replica knows",
            remedy=f"add --dsn {name}=postgresql://USER@HOST/DATABASE",
        )
        for name in behind
    )
