"""Who holds the horizon, since when, and how, and which statement ends it?"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from stallbench.base.number_text import format_count, format_plural
from stallbench.engines.collectors.connections import APPLICATION_PREFIX
from stallbench.engines.postgres.collectors.horizon import SNAPSHOT, Holder, is_momentary, read_horizon
from stallbench.engines.postgres.ending import statement_to_drop
from stallbench.observe.diagnostic import HORIZON, Diagnostic, Finding, NotVisible, Reading, Remedy, Section, Severity
from stallbench.observe.formatting import format_age, format_since
from stallbench.observe.postgres.blocking import describe_session, end_head
from stallbench.observe.postgres.dead_rows import OldestHolder
from stallbench.observe.postgres.session import APPLICATION
from stallbench.observe.postgres.sessions import SessionDetails, commit_without_standby, end_prepared, end_session, read_sessions
from stallbench.observe.postgres.slots import Slot, describe_loss_of_slot, read_slots
from stallbench.observe.thresholds import BRIEF_S, LONG_TRANSACTION_S, MANY_XIDS, VERY_LONG_TRANSACTION_S, YOUNG_HOLDER_S

_MOST_SHOWN = 6
_PREPARED_S = 10.0
"""A transaction manager commits what it has prepared within milliseconds."""
_OLD_FEEDBACK_XIDS = 100_000
"""The feedback of a replica on which nothing is wrong is some seconds old."""
SERVER = "this server"
"""The name of the observed server among those on which holders are."""
_NEXT_XID = "SELECT pg_catalog.age('3'::pg_catalog.xid) + 3"
_XIDS = 2**32
_REPLAYED = """
SELECT pg_catalog.pg_snapshot_xmin(seen)::pg_catalog.text::bigint, pg_catalog.pg_snapshot_xmax(seen)::pg_catalog.text::bigint
FROM pg_catalog.pg_current_snapshot() AS seen
"""
"""On a replica: the oldest transaction id that is in use on the primary, and the first that had not ended, as far as was replayed."""
_MANY_DEFERRED_XIDS = 10_000
"""A deferral of fewer transactions is over within seconds on a busy server."""
_MOST_REMEMBERED = 200
_FEWEST_XIDS = 10
"""Between two readings; with fewer, their rate says nothing about earlier."""
_MEANS = "VACUUM cannot remove any row that has died since, so every claim reads past more dead rows"
_DEFERRED = "SELECT pg_catalog.current_setting('vacuum_defer_cleanup_age', true)::bigint"
"""None from PostgreSQL 16 on."""
OLD_REPLAY_S = 30.0
"""A replica that has WAL to replay, or receives none, and whose last transaction is older shows the past."""
_REPLAY = """
SELECT pg_catalog.pg_is_wal_replay_paused(),
  extract(epoch FROM pg_catalog.clock_timestamp() - pg_catalog.pg_last_xact_replay_timestamp())::double precision,
  pg_catalog.pg_last_wal_replay_lsn() < pg_catalog.pg_last_wal_receive_lsn() OR NOT EXISTS (SELECT FROM pg_catalog.pg_stat_wal_receiver),
  pg_catalog.current_setting('hot_standby_feedback')::boolean, pg_catalog.current_setting('max_standby_streaming_delay')
"""
_PREPARED = """
SELECT gid, owner, database, extract(epoch FROM pg_catalog.clock_timestamp() - prepared)::double precision FROM pg_catalog.pg_prepared_xacts
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class PreparedTransaction:
    """A transaction that waits for its COMMIT PREPARED or ROLLBACK PREPARED."""

    owner: str
    database: str
    age_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Effect:
    """What an old snapshot does."""

    verb: str = "holds the horizon"
    """Of the oldest."""
    verb_of_others: str = "also keeps dead rows"
    because: str = _MEANS
    can_be_critical: bool = True


@dataclass(slots=True)
class _History:
    """What earlier readings saw: the server does not say for how long feedback, or a session that it hides, holds the horizon."""

    next_xids: list[tuple[float, int]] = field(default_factory=list)
    """The time of each reading, and the next transaction id then."""
    seen: dict[tuple[str, str, int], float] = field(default_factory=dict)
    """When a holder was first seen, by its server, its key and the transaction that it reaches back to."""

    def add(self, at_s: float, next_xid: int, holders: list[Holder]) -> None:
        """Remember a reading."""
        self.next_xids.append((at_s, next_xid))
        if len(self.next_xids) > _MOST_REMEMBERED:
            del self.next_xids[1::2]
        keys = [(one.source, one.key, (next_xid - one.age_xids) % _XIDS) for one in holders]
        self.seen = {key: self.seen.get(key, at_s) for key in keys}

    def at_least_s(self, holder: Holder) -> float:
        """Return for how long the holder is known to hold, without the age that the server says."""
        now_s, next_xid = self.next_xids[-1]
        since_s = self.seen.get((holder.source, holder.key, (next_xid - holder.age_xids) % _XIDS), now_s)
        if holder.kind in ("replica", "slot"):
            older = (at_s for at_s, then in self.next_xids if (next_xid - then) % _XIDS < holder.age_xids)
            since_s = min(since_s, next(older, now_s))
        return now_s - since_s

    def about_s(self, holder: Holder) -> float | None:
        """Return its age by the present rate of transactions; none if there are too few to tell."""
        if len(self.next_xids) < 2:
            return None
        (then_s, then), (now_s, now) = self.next_xids[-2:]
        xids = (now - then) % _XIDS
        return holder.age_xids * (now_s - then_s) / xids if xids >= _FEWEST_XIDS else None


class HorizonDiagnostic(Diagnostic):
    """Reads every holder on the server, and, behind a replica's feedback, on the replicas whose addresses were given."""

    name = HORIZON
    what = "who holds the horizon"
    position = 10

    def __init__(self) -> None:
        """Know no earlier reading."""
        self._history = _History()
        self._replayed: list[tuple[float, int]] = []
        """On a replica: the time of each reading, and the first transaction id that had not ended then."""

    def read(self, reading: Reading) -> Section:
        """Return the oldest holders, and a finding for each that holds the horizon for long."""
        replicas = reading.state.replicas
        effect = _read_effect(reading)
        found = read_horizon(reading.server, replicas, SERVER)
        (reading.state.next_xid,) = reading.server.execute(_NEXT_XID).fetchone() or (0,)
        self._history.add(reading.at_s, reading.state.next_xid, found)
        holders = [one for one in found if not (_is_named_as_own(one) and is_momentary(self._age_s(one)))]
        lasting = [one for one in holders if one.kind != "backend" or self._age_s(one) >= BRIEF_S]
        shown = lasting[:_MOST_SHOWN]
        described = [*shown, *(one for one in holders[:2] if one not in shown)]
        prepared = _read_prepared(reading) if any(one.kind == "prepared" for one in described) else {}
        details = _read_details(reading, described, replicas)
        causes = _find_causes(reading, described, details)
        slots = _read_inactive_slots(reading, holders)
        restarting = {slot.name for slot in slots if slot.is_briefly_inactive}
        synced = {slot.name for slot in slots if slot.is_synced}
        of_data = [
            one
            for one in described
            if not one.catalog_only and not one.is_explained and not (one.kind == "slot" and one.key in restarting)
        ]
        holding = [one for one in of_data if one in shown]
        by_age = sorted(of_data, key=lambda one: -one.age_xids)
        oldest = [self._describe_oldest(one, details, prepared, causes.get(one.key), is_shown=one in shown) for one in by_age]
        # Feedback is some seconds old even if nothing on the replica holds anything.
        certain = next((one for one in oldest if not (one.is_feedback and one.is_young)), None)
        reading.state.holders = [one for one in (certain, oldest[0] if oldest else None) if one is not None]
        if certain is not None and oldest[0] is certain:
            reading.state.holders = [certain]
        deferral = _read_deferral(reading, max((one.age_xids for one in oldest), default=0))
        if deferral is not None:
            reading.state.holders = [deferral, *reading.state.holders]
        reported = [one for one in holding if _is_reported(one) and self._is_lasting(one)]
        victims: dict[str, list[Holder]] = {}
        for one in reported:
            if cause := causes.get(one.key):
                victims.setdefault(cause.words, []).append(one)
        # Of those that wait for the same one, which end with it, the oldest is enough.
        judged = [one for one in reported if one.key not in causes]
        judged += [of_one[0] for of_one in victims.values()]
        findings = [
            judge_holder(one, details, prepared, rank, causes.get(one.key), self._history.at_least_s(one), effect)
            for rank, one in enumerate(judged)
        ]
        several = [of_one[0].key for of_one in victims.values() if len(of_one) > 1]
        findings = [_mention_others(one) if one.about in several else one for one in findings]
        told = [one.pid for one in judged if one.kind == "backend" and one.source == SERVER and one.key in details]
        reading.state.described[self.name] = frozenset(pid for pid in told if pid is not None)
        rows = [
            (
                _describe(one, details, prepared),
                format_since(one.age_s) if one.age_s is not None else "",
                format_age(one.age_s) if one.age_s is not None else _at_least(self._history.at_least_s(one)),
                format_count(one.age_xids),
                _describe_way(one),
                causes[one.key].words
                if one.key in causes
                else _advise(one, details.get(one.key), prepared, synced=synced, restarting=restarting),
            )
            for one in shown
        ]
        more = len(lasting) - len(shown)
        on_primary = self._read_primary(reading) if reading.state.is_replica and not reading.state.shows_past else None
        whose = "of this replica" if on_primary else "of this database"
        return Section(
            title="Who holds the horizon",
            columns=("holder", "since", "age", "transactions", "how", "statement that ends it"),
            rows=tuple(rows),
            sentences=(
                *((f"and {more} more",) if more else () if rows else (f"No transaction {whose} is older than a second.",)),
                *((on_primary.sentence,) if on_primary else ()),
            ),
            says_nothing=not rows and not on_primary,
            has_statements=True,
            findings=(
                *((deferral.finding,) if deferral else ()),
                *findings,
                *((on_primary,) if on_primary and on_primary.about else ()),
            ),
            not_visible=_name_not_visible(shown),
        )

    def _describe_oldest(
        self,
        holder: Holder,
        details: Mapping[str, SessionDetails],
        prepared: Mapping[str, PreparedTransaction],
        cause: Cause | None,
        *,
        is_shown: bool,
    ) -> OldestHolder:
        return OldestHolder(
            name=_describe(holder, details, prepared),
            finding=judge_holder(holder, details, prepared, 0, cause, self._history.at_least_s(holder)),
            is_reported=is_shown and _is_reported(holder) and self._is_lasting(holder),
            is_feedback=holder.kind == "replica" or (holder.kind == "slot" and holder.state == "active"),
            age_s=holder.age_s,
            at_least_s=self._age_s(holder),
            about_s=None if holder.age_s is not None else self._history.about_s(holder),
            age_xids=holder.age_xids,
        )

    def _read_primary(self, reading: Reading) -> Finding:
        """Return what the replica's snapshot tells of the primary; it is about nothing if there is no old transaction."""
        oldest, ended = reading.server.execute(_REPLAYED).fetchone() or (0, 0)
        self._replayed.append((reading.at_s, ended))
        if len(self._replayed) > _MOST_REMEMBERED:
            del self._replayed[1::2]
        open_s = reading.at_s - next((at_s for at_s, then in self._replayed if oldest < then), reading.at_s)
        is_old = open_s >= BRIEF_S or ended - oldest >= MANY_XIDS
        sentence = "On the primary, no transaction that has written is known to be older than a second."
        if is_old or ended > oldest:
            lasted = f"for at least {format_age(open_s)}, " if open_s >= BRIEF_S else ""
            xids = format_plural(ended - oldest, "transaction")
            sentence = f"On the primary, a transaction has been open {lasted}since {xids} ago. Only the primary knows which."
        is_long = open_s >= YOUNG_HOLDER_S or ended - oldest >= MANY_XIDS
        return Finding(
            severity=Severity.WARNING if is_long else Severity.NOTE,
            subject=self.name,
            about="primary" if is_old else "",
            sentence=sentence,
            because="vacuums of the primary, and so of this replica, cannot remove rows that have died since" if is_old else "",
        )

    def _is_lasting(self, holder: Holder) -> bool:
        """Whether it is more than a moment in which a snapshot here reaches back to a transaction of another database."""
        return holder.via != SNAPSHOT or self._history.at_least_s(holder) >= BRIEF_S

    def _age_s(self, holder: Holder) -> float:
        """Return its age, or for how long it was seen if the server does not say it."""
        return holder.age_s if holder.age_s is not None else self._history.at_least_s(holder)


def _is_reported(holder: Holder) -> bool:
    """Whether it is a finding whatever it does to the queue's tables."""
    return _is_long(holder) or holder.kind == "prepared"


def _at_least(seen_s: float) -> str:
    return f"at least {format_age(seen_s)}" if seen_s >= BRIEF_S else ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cause:
    """For whom a holder waits, which can end nothing before that."""

    words: str
    """Like ``waits for session 12``."""
    remedy: Remedy


def _find_causes(reading: Reading, holders: list[Holder], details: Mapping[str, SessionDetails]) -> dict[str, Cause]:
    """Return the cause of each holder on this server that waits for a lock, or for a standby, by the holder's key."""
    waits = reading.state.lock_waits
    heads = {
        one.key: waits.find_heads(one.pid)
        for one in holders
        if one.kind == "backend" and one.source == SERVER and one.pid is not None and one.pid in waits.by_session
    }
    sessions = read_sessions(reading.server, [head for of_one in heads.values() for head in of_one if isinstance(head, int)])
    causes = {
        key: Cause(
            words=f"waits for {describe_session(of_one[0], {})}" if of_one else "is in a deadlock",
            remedy=end_head(of_one[0], waits, sessions) if of_one else Remedy(),
        )
        for key, of_one in heads.items()
    }
    committed = [one.key for one in holders if one.key in details and details[one.key].awaits_standby and one.source == SERVER]
    return causes | {key: Cause(words="is committed", remedy=commit_without_standby()) for key in committed}


def _mention_others(finding: Finding) -> Finding:
    """Return the finding about a holder that waits, with that others wait for the same one, and end with it."""
    return replace(finding, sentence=f"{finding.sentence} Other sessions that wait keep dead rows, too.")


def _read_effect(reading: Reading) -> Effect:
    """Return what an old snapshot here does; notes whether the server is a replica that shows the past."""
    reading.state.shows_past = False
    if not reading.state.is_replica:
        return Effect()
    ((is_paused, delay_s, lacks_wal, has_feedback, max_delay),) = reading.server.execute(_REPLAY).fetchall()
    reading.state.shows_past = bool(is_paused) or (bool(lacks_wal) and (delay_s or 0.0) >= OLD_REPLAY_S)
    if has_feedback:
        return Effect()
    until = "until it ends" if max_delay == "-1" else "for so long, and then cancels its statement"
    return Effect(
        verb="delays the replay on this replica if it needs what the primary removes",
        verb_of_others="also delays the replay",
        because=f"this replica sends no feedback (hot_standby_feedback = off), so vacuums of the primary go on; when the replay comes to rows that "
        f"they have removed, and that this session may still read, it waits {until} (max_standby_streaming_delay = {max_delay})",
        can_be_critical=False,
    )


def _read_deferral(reading: Reading, oldest_xids: int) -> OldestHolder | None:
    """Return the setting that keeps dead rows for a number of transactions; none if it is 0. ``oldest_xids``: age of the oldest holder.

    The server counts the transactions from the oldest holder on.
    """
    ((deferred,),) = reading.server.execute(_DEFERRED).fetchall()
    if reading.state.is_replica or not deferred:
        return None
    return OldestHolder(
        name="vacuum_defer_cleanup_age",
        finding=Finding(
            severity=Severity.WARNING if deferred >= _MANY_DEFERRED_XIDS else Severity.NOTE,
            subject=HorizonDiagnostic.name,
            about="vacuum_defer_cleanup_age",
            sentence=f"vacuum_defer_cleanup_age is {format_count(deferred)}: no vacuum removes a row before so many more transactions have begun.",
            because="claims read past the dead rows that are kept for so long",
            statement="ALTER SYSTEM RESET vacuum_defer_cleanup_age; SELECT pg_reload_conf();",
            caution="ends the delay at once; if postgresql.conf sets it, remove it there. A replica without hot_standby_feedback may then cancel queries",
        ),
        is_reported=True,
        is_feedback=False,
        age_s=None,
        at_least_s=float("inf"),
        about_s=None,
        age_xids=oldest_xids + deferred,
    )


def _is_named_as_own(holder: Holder) -> bool:
    return holder.application == APPLICATION or holder.application.startswith(APPLICATION_PREFIX)


def _read_inactive_slots(reading: Reading, holders: list[Holder]) -> list[Slot]:
    """Return the slots if an inactive one is a holder: its consumer may only be restarting."""
    return read_slots(reading.server) if any(one.kind == "slot" and one.state == "inactive" for one in holders) else []


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
    seen_s: float = 0.0,
    effect: Effect | None = None,
) -> Finding:
    """Return what a holder means, and how to end it. ``rank``: 0 for the oldest. ``details`` and ``prepared``: by the holder's key.

    ``cause``: for whom it waits, if it does; that is to be ended, and not the holder. ``seen_s``: for how long it was seen, which is said if the server
    hides its age.
    """
    effect = effect or Effect()
    is_urgent = (
        effect.can_be_critical and rank == 0 and ((holder.age_s or 0) >= VERY_LONG_TRANSACTION_S or holder.age_xids >= MANY_XIDS)
    )
    severity = Severity.CRITICAL if is_urgent else Severity.WARNING if _is_long(holder) else Severity.NOTE
    since = f" for {format_age(holder.age_s)}, since {format_since(holder.age_s)}" if holder.age_s is not None else ""
    if not since and (at_least := _at_least(seen_s)):
        since = f" for {at_least}"
    verb = effect.verb if rank == 0 else effect.verb_of_others
    session = details.get(holder.key)
    doing = f" It is {session.doing}." if session and session.doing else ""
    if _is_elsewhere(holder):
        through = (
            f"is in database {holder.database}, and holds it through the snapshots that sessions here have taken since it began"
            if holder.via == SNAPSHOT
            else "holds it through a replica's feedback, which asks for the transactions of all databases"
        )
        doing = f" It {through}.{doing}"
    statement, where, caution = _end(holder, session, prepared)
    if cause:
        statement, where, caution = cause.remedy.statement, cause.remedy.where, cause.remedy.caution
        doing += f" It {cause.words}."
    named = _describe(holder, details, prepared)
    return Finding(
        severity=severity,
        subject=HorizonDiagnostic.name,
        about=holder.key,
        sentence=f"{named[0].upper()}{named[1:]} {verb}{since} ({format_plural(holder.age_xids, 'transaction')} ago).{doing}",
        because=effect.because if rank == 0 else "",
        statement=statement,
        where=where,
        caution=caution,
        only_shows=not _names_it(holder),
        is_of_victim=cause is not None,
    )


def _end(holder: Holder, session: SessionDetails | None, prepared: Mapping[str, PreparedTransaction]) -> tuple[str, str, str]:
    """Return the statement that ends the holder, where to execute it, and what else it does."""
    on_replica = f"on {holder.source}" if holder.source != SERVER else ""
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
            elsewhere = f" (database {holder.database})" if _is_elsewhere(holder) else ""
            name = session.name if session else f"session {holder.pid}{elsewhere}"
            if session and session.is_dump:
                name = name.replace("session", "pg_dump, session", 1)
            elif session and session.is_walsender:
                name = f"copy of tables to a subscriber of logical replication, {name}"
            return f"{name} on {holder.source}" if holder.source != SERVER else name
        case "prepared":
            one = prepared.get(holder.key)
            return f"prepared transaction {holder.key}" + (f" (database {one.database}, owner {one.owner})" if one else "")
        case "slot":
            return f"{holder.state} replication slot {holder.key}"
        case _:
            return f"replica {holder.application}"


def _is_elsewhere(holder: Holder) -> bool:
    """Whether it is on the observed server, and in another database."""
    return bool(holder.via) and holder.source == SERVER and holder.kind in ("backend", "prepared")


def _describe_way(holder: Holder) -> str:
    if holder.catalog_only:
        return "slot, system catalogs only"
    if holder.is_explained:
        return "hot_standby_feedback, of a transaction that is listed"
    if holder.via == SNAPSHOT:
        return f"open in database {holder.database}; snapshots here reach back to it"
    if holder.via == "feedback":
        return "hot_standby_feedback of a replica"
    if holder.via:
        return f"hot_standby_feedback through {holder.via.replace(':', ' ')}"
    return {"backend": holder.state or "open transaction", "prepared": "belongs to no session", "slot": "slot"}[holder.kind]


def _read_prepared(reading: Reading) -> dict[str, PreparedTransaction]:
    return {
        gid: PreparedTransaction(owner=owner, database=database, age_s=age_s)
        for gid, owner, database, age_s in reading.server.execute(_PREPARED).fetchall()
    }


def _read_details(reading: Reading, holders: list[Holder], replicas: Mapping[str, Any]) -> dict[str, SessionDetails]:
    """Return the sessions of holders by the holder's key."""
    found: dict[str, SessionDetails] = {}
    for source in {one.source for one in holders if one.kind == "backend"}:
        of_source = [one for one in holders if one.kind == "backend" and one.source == source]
        sessions = read_sessions(replicas.get(source, reading.server), [one.pid for one in of_source])
        found |= {one.key: sessions[one.pid] for one in of_source if one.pid in sessions}
    return found


def _name_not_visible(holders: list[Holder]) -> tuple[NotVisible, ...]:
    behind = sorted(
        {
            one.application or one.key
            for one in holders
            if one.kind in ("replica", "slot") and one.via and not one.catalog_only and not one.is_explained
        }
    )
    return tuple(
        NotVisible(
            what=f"which session on replica {name} holds the horizon",
            why="only the replica knows",
            remedy=f"add --dsn {name}=postgresql://USER@HOST/DATABASE",
        )
        for name in behind
    )
