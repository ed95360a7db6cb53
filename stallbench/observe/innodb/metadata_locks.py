"""Which sessions wait for a metadata lock, behind a change of a table or a transaction that has used the table, and who holds that lock?

InnoDB does not count such waits. The list of sessions shows who waits; who holds the lock is known only to the performance schema.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from stallbench.observe.formatting import capitalize_first, format_age, format_plural, shorten_text
from stallbench.observe.subject import Finding, Severity, Unseen
from stallbench.observe.thresholds import BRIEF_S, LONG_WAIT_S

_MOST_SHOWN = 8
_MOST_FINDINGS = 3
_WAITING = """
SELECT id, user, time, state, coalesce(info, '') FROM information_schema.processlist
WHERE state LIKE 'Waiting for % metadata lock' AND id <> connection_id()
ORDER BY time DESC, id
"""
_GRANTED = """
SELECT DISTINCT waiter.processlist_id, pending.lock_type, granted.lock_type,
  coalesce(holder.processlist_id, 0), coalesce(holder.processlist_user, ''), coalesce(lower(holder.processlist_command), ''),
  coalesce(holder.processlist_info, '')
FROM performance_schema.metadata_locks AS pending
JOIN performance_schema.threads AS waiter ON waiter.thread_id = pending.owner_thread_id
JOIN performance_schema.metadata_locks AS granted ON granted.object_type = pending.object_type
  AND granted.object_schema <=> pending.object_schema AND granted.object_name <=> pending.object_name
  AND granted.owner_thread_id <> pending.owner_thread_id
LEFT JOIN performance_schema.threads AS holder ON holder.thread_id = granted.owner_thread_id
WHERE pending.lock_status = 'PENDING' AND granted.lock_status = 'GRANTED'
AND waiter.processlist_id IS NOT NULL AND (holder.processlist_id IS NOT NULL OR holder.thread_id IS NULL)
"""
# What a granted lock keeps others from (sql/mdl.cc of both servers). Every other kind that waits, such as EXCLUSIVE, waits for any lock.
_EXCLUDES_READERS = frozenset({"SHARED_NO_READ_WRITE", "EXCLUSIVE"})
_EXCLUDES_WRITERS = _EXCLUDES_READERS | {"SHARED_READ_ONLY", "SHARED_NO_WRITE"}
_CONFLICTS = {
    "INTENTION_EXCLUSIVE": frozenset({"SHARED", "EXCLUSIVE"}),
    "SHARED_HIGH_PRIO": frozenset({"EXCLUSIVE"}),
    "SHARED_READ": _EXCLUDES_READERS,
    "SHARED_WRITE": _EXCLUDES_WRITERS,
    "SHARED_WRITE_LOW_PRIO": _EXCLUDES_WRITERS,
    "SHARED_READ_ONLY": _EXCLUDES_READERS | {"SHARED_WRITE", "SHARED_WRITE_LOW_PRIO"},
    "SHARED_UPGRADABLE": _EXCLUDES_READERS | {"SHARED_NO_WRITE", "SHARED_UPGRADABLE"},
}
_CHANGES = ("ALTER ", "CREATE ", "OPTIMIZE ", "REPAIR ")
NO_SESSION = "a transaction without a session (as a prepared XA transaction is)"
_MEANS = "a change of a table waits for every transaction that has used the table, and everything else on the table waits behind the change"


class MetadataWait(NamedTuple):
    """A session that waits for a metadata lock."""

    pid: int
    user: str
    waits_s: float
    """Whole seconds, since its statement began."""
    state: str
    """Like ``Waiting for table metadata lock``."""
    statement: str


class MetadataHolder(NamedTuple):
    """A session that holds a metadata lock for which others wait."""

    pid: int
    """0 if its session has ended and left the lock to a prepared XA transaction."""
    user: str
    command: str
    """``sleep`` if its client does nothing."""
    statement: str = ""
    """What it executes; empty if nothing."""

    @property
    def name(self) -> str:
        """Return what an engineer knows it by."""
        if self.pid == 0:
            return NO_SESSION
        return f"session {self.pid} (user {self.user}{', idle in transaction' if self.command == 'sleep' else ''})"

    @property
    def caution(self) -> str:
        """Return what else happens if it is killed."""
        if self.statement.lstrip().upper().startswith(_CHANGES):
            return f"aborts its change of the table, whose work is lost, and closes its connection: {shorten_text(self.statement, 60)}"
        return "rolls its transaction back and closes its connection"


RowWaits = Mapping[int, Sequence[MetadataHolder]]
"""By session that waits for a row lock: the sessions that block it, as far as they are known."""
NO_ROW_WAITS: RowWaits = {}


class GrantedLock(NamedTuple):
    """A lock of another session on the object for whose lock a session waits."""

    waiter_pid: int
    awaited_kind: str
    """Like ``SHARED_WRITE``."""
    kind: str
    holder: MetadataHolder


def read_metadata_waits(server: Any) -> list[MetadataWait]:
    """Return the sessions that wait, the longest first; without PROCESS only the user's own. Raises PyMySQL's errors."""
    return [
        MetadataWait(int(pid), str(user), float(waits_s or 0), str(state), str(info))
        for pid, user, waits_s, state, info in server.fetch(_WAITING)
    ]


def read_metadata_holders(server: Any, row_waits: RowWaits = NO_ROW_WAITS) -> dict[int, list[MetadataHolder]]:
    """Return, by session that waits, who holds the lock; empty if the server does not record it. Raises PyMySQL's errors."""
    return find_holders(
        [
            GrantedLock(int(waiter), str(awaited), str(kind), MetadataHolder(int(pid), str(user), str(command), str(statement)))
            for waiter, awaited, kind, pid, user, command, statement in server.fetch(_GRANTED)
        ],
        row_waits,
    )


def find_holders(granted: Sequence[GrantedLock], row_waits: RowWaits = NO_ROW_WAITS) -> dict[int, list[MetadataHolder]]:
    """Return, by session that waits, the sessions that do not wait themselves and for which it waits, directly or behind others."""
    by_waiter: dict[int, list[GrantedLock]] = {}
    for lock in granted:
        by_waiter.setdefault(lock.waiter_pid, []).append(lock)
    direct: dict[int, dict[int, MetadataHolder]] = {}
    for waiter, locks in by_waiter.items():
        conflicting = [one for one in locks if _is_in_conflict(one)]
        # The kind that is shown is the one before an upgrade: a change that copies the table has SHARED_UPGRADABLE, and excludes writers.
        upgradable = [one for one in locks if one.kind == "SHARED_UPGRADABLE"]
        # Otherwise it waits behind another that waits for any lock, or behind MariaDB's LOCK TABLES READ, which is shown as SHARED_READ.
        direct[waiter] = {one.holder.pid: one.holder for one in conflicting or upgradable or locks}
    # A worker whose claim waits for a row has used the table, too. Whoever blocks the row is the one to end.
    by_row = {pid: {one.pid: one for one in blockers} for pid, blockers in row_waits.items()}
    holders = {waiter: _follow(waiter, {**by_row, **direct}) for waiter in direct}
    return {waiter: found for waiter, found in holders.items() if found}


def _is_in_conflict(lock: GrantedLock) -> bool:
    conflicts = _CONFLICTS.get(lock.awaited_kind)
    return conflicts is None or lock.kind in conflicts


def _follow(waiter: int, direct: Mapping[int, Mapping[int, MetadataHolder]]) -> list[MetadataHolder]:
    """Return the ends of the chains of waits that begin with a session."""
    found: dict[int, MetadataHolder] = {}
    seen, ahead = {waiter}, list(direct[waiter].values())
    while ahead:
        one = ahead.pop(0)
        if one.pid in seen:
            continue
        seen.add(one.pid)
        if one.pid in direct:
            ahead += direct[one.pid].values()
        else:
            found[one.pid] = one
    return list(found.values())


def list_metadata_waits(
    waits: Sequence[MetadataWait], holders: Mapping[int, Sequence[MetadataHolder]]
) -> tuple[tuple[str, ...], ...]:
    """Return rows for the table of blocked sessions: session, how long, for what, blocked by whom."""
    return tuple(
        (
            f"session {one.pid} (user {one.user})",
            format_age(one.waits_s),
            f"{one.state.removeprefix('Waiting for ')}: {shorten_text(one.statement, 60)}",
            ", ".join(holder.name for holder in holders.get(one.pid, ())) or "?",
        )
        for one in waits[:_MOST_SHOWN]
    )


def judge_metadata_waits(
    waits: Sequence[MetadataWait], holders: Mapping[int, Sequence[MetadataHolder]], subject: str
) -> list[Finding]:
    """Return a finding for each of the holders behind whom the most sessions wait; one without a statement if no holder is known."""
    if not waits or waits[0].waits_s < BRIEF_S:
        return []
    known = {holder.pid: holder for of_waiter in holders.values() for holder in of_waiter}
    blocked = {pid: [one for one in waits if any(each.pid == pid for each in holders.get(one.pid, ()))] for pid in known}
    lasting = [pid for pid, own in blocked.items() if own and own[0].waits_s >= BRIEF_S]
    if not lasting:
        longest = waits[0]
        return [
            Finding(
                severity=_judge_wait(longest),
                subject=subject,
                about="metadata locks",
                sentence=f"{format_plural(len(waits), 'session waits', 'sessions wait')} for a metadata lock, "
                f"the longest for {format_age(longest.waits_s)} (session {longest.pid}: {shorten_text(longest.statement, 70)}). "
                "Who holds it is not known: look for the oldest transaction, or for a prepared XA transaction.",
                because=_MEANS,
            )
        ]
    lasting.sort(key=lambda pid: -len(blocked[pid]))
    return [_judge_holder(known[pid], blocked[pid], subject) for pid in lasting[:_MOST_FINDINGS]]


def _judge_holder(holder: MetadataHolder, own: Sequence[MetadataWait], subject: str) -> Finding:
    """``own``: the waits that it blocks, the longest first."""
    return Finding(
        severity=_judge_wait(own[0]),
        subject=subject,
        about=str(holder.pid),
        sentence=f"{capitalize_first(holder.name)} holds a metadata lock for which {format_plural(len(own), 'session waits', 'sessions wait')}, "
        f"the longest for {format_age(own[0].waits_s)} ({shorten_text(own[0].statement, 70)}).",
        because=_MEANS,
        statement=f"KILL {holder.pid};" if holder.pid else "",
        caution=holder.caution if holder.pid else "",
    )


def _judge_wait(longest: MetadataWait) -> Severity:
    return Severity.CRITICAL if longest.waits_s >= LONG_WAIT_S else Severity.WARNING


def describe_unrecorded() -> Unseen:
    """Return that the server does not record who holds metadata locks, as is MariaDB's default."""
    return Unseen(
        what="who holds the metadata lock for which sessions wait",
        why="the performance schema does not record metadata locks",
        remedy="UPDATE performance_schema.setup_instruments SET enabled = 'YES' WHERE name = 'wait/lock/metadata/sql/mdl'; "
        "records the locks that are taken afterwards, if the server runs with performance_schema = on",
    )
