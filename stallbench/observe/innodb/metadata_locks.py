"""Which sessions wait for a metadata lock, behind a change of a table or a transaction that has used the table, and who holds that lock?

InnoDB does not count such waits. The list of sessions shows who waits; who holds the lock is known only to the performance schema.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from stallbench.observe.formatting import capitalize_first, format_age, format_plural, shorten_text
from stallbench.observe.subject import Finding, Severity, Unseen
from stallbench.observe.thresholds import BRIEF_S, LONG_WAIT_S

_MOST_SHOWN = 8
_WAITING = """
SELECT id, user, time, state, coalesce(info, '') FROM information_schema.processlist
WHERE state LIKE 'Waiting for % metadata lock' AND id <> connection_id()
ORDER BY time DESC, id
"""
# Who waits behind a change of a table waits in fact for those who hold a lock of that table and do not wait themselves.
_HOLDERS = """
SELECT DISTINCT waiter.processlist_id, holder.processlist_id, coalesce(holder.processlist_user, ''), lower(holder.processlist_command)
FROM performance_schema.metadata_locks AS pending
JOIN performance_schema.threads AS waiter ON waiter.thread_id = pending.owner_thread_id
JOIN performance_schema.metadata_locks AS granted ON granted.object_type = pending.object_type
  AND granted.object_schema <=> pending.object_schema AND granted.object_name <=> pending.object_name
JOIN performance_schema.threads AS holder ON holder.thread_id = granted.owner_thread_id
WHERE pending.lock_status = 'PENDING' AND granted.lock_status = 'GRANTED' AND holder.processlist_id IS NOT NULL
AND granted.owner_thread_id NOT IN (SELECT owner_thread_id FROM performance_schema.metadata_locks WHERE lock_status = 'PENDING')
"""
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
    user: str
    command: str
    """``sleep`` if its client does nothing."""

    @property
    def name(self) -> str:
        """Return what an engineer knows it by."""
        return f"session {self.pid} (user {self.user}{', idle in transaction' if self.command == 'sleep' else ''})"


def read_metadata_waits(server: Any) -> list[MetadataWait]:
    """Return the sessions that wait, the longest first; without PROCESS only the user's own. Raises PyMySQL's errors."""
    return [
        MetadataWait(int(pid), str(user), float(waits_s or 0), str(state), str(info))
        for pid, user, waits_s, state, info in server.fetch(_WAITING)
    ]


def read_metadata_holders(server: Any) -> dict[int, list[MetadataHolder]]:
    """Return, by session that waits, who holds the lock; empty if the server does not record it. Raises PyMySQL's errors."""
    holders: dict[int, list[MetadataHolder]] = {}
    for waiter, holder, user, command in server.fetch(_HOLDERS):
        holders.setdefault(int(waiter), []).append(MetadataHolder(int(holder), str(user), str(command)))
    return holders


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
    counts = Counter(holder.pid for of_waiter in holders.values() for holder in of_waiter)
    longest = waits[0]
    severity = Severity.CRITICAL if longest.waits_s >= LONG_WAIT_S else Severity.WARNING
    if not known:
        return [
            Finding(
                severity=severity,
                subject=subject,
                about="metadata locks",
                sentence=f"{format_plural(len(waits), 'session')} waiting for a metadata lock, the longest for {format_age(longest.waits_s)} "
                f"(session {longest.pid}: {shorten_text(longest.statement, 70)}). Who holds it is not known: look for the oldest transaction.",
                because=_MEANS,
            )
        ]
    return [
        Finding(
            severity=severity,
            subject=subject,
            about=str(pid),
            sentence=f"{capitalize_first(known[pid].name)} holds a metadata lock for which {format_plural(count, 'session waits', 'sessions wait')}, "
            f"the longest for {format_age(longest.waits_s)} ({shorten_text(longest.statement, 70)}).",
            because=_MEANS,
            statement=f"KILL {pid};",
            caution="rolls its transaction back and closes its connection",
        )
        for pid, count in counts.most_common(3)
    ]


def describe_unrecorded() -> Unseen:
    """Return that the server does not record who holds metadata locks, as is MariaDB's default."""
    return Unseen(
        what="who holds the metadata lock for which sessions wait",
        why="the performance schema does not record metadata locks",
        remedy="UPDATE performance_schema.setup_instruments SET enabled = 'YES' WHERE name = 'wait/lock/metadata/sql/mdl'; "
        "records the locks that are taken afterwards, if the server runs with performance_schema = on",
    )
