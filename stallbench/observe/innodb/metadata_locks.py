"""Which sessions wait for a metadata lock, behind a change of a table or a transaction that has used the table, and who holds that lock?

InnoDB does not count such waits. The list of sessions shows who waits; who holds the lock is known only to the performance schema.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from stallbench.observe.diagnostic import NotVisible
from stallbench.observe.innodb.sessions import is_change

_OF_SERVER = ("Waiting for backup lock", "Waiting for global read lock", "Waiting for commit lock")
"""States of those who want to write, or to commit, while a backup has locked the whole server."""
_WAITING = f"""
SELECT id, user, time, state, coalesce(info, '') FROM information_schema.processlist
WHERE (state LIKE 'Waiting for % metadata lock' OR state = 'User lock' OR state IN {_OF_SERVER}) AND id <> connection_id()
ORDER BY time DESC, id
"""
_LOCKS = """
SELECT DISTINCT waiter.processlist_id, pending.lock_type, other.lock_type, other.lock_status = 'PENDING', coalesce(holder.processlist_id, 0),
  coalesce(holder.processlist_info, ''),
  if(pending.object_type LIKE 'USER%LOCK', coalesce(nullif(pending.object_name, ''), pending.object_schema, ''), '')
FROM performance_schema.metadata_locks AS pending
JOIN performance_schema.threads AS waiter ON waiter.thread_id = pending.owner_thread_id
JOIN performance_schema.metadata_locks AS other ON other.object_type = pending.object_type
  AND other.object_schema <=> pending.object_schema AND other.object_name <=> pending.object_name
  AND other.owner_thread_id <> pending.owner_thread_id
LEFT JOIN performance_schema.threads AS holder ON holder.thread_id = other.owner_thread_id
WHERE pending.lock_status = 'PENDING' AND other.lock_status IN ('GRANTED', 'PENDING')
AND waiter.processlist_id IS NOT NULL AND (holder.processlist_id IS NOT NULL OR holder.thread_id IS NULL)
"""
# MariaDB has the name of a lock of GET_LOCK as the schema.
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
SERVER_LOCK = "lock of the whole server"
MEANS = "a change of a table waits for every transaction that has used the table, and everything else on the table waits behind the change"


class MetadataWait(NamedTuple):
    """A session that waits for a metadata lock."""

    pid: int
    user: str
    waits_s: float
    """Whole seconds, since its statement began."""
    state: str
    """Like ``Waiting for table metadata lock``."""
    statement: str

    @property
    def is_user_lock(self) -> bool:
        """Whether it waits in GET_LOCK."""
        return self.state == "User lock"

    @property
    def is_of_server(self) -> bool:
        """Whether it waits for a lock of the whole server. Who holds it is not read: every writer holds a lock on the same object."""
        return self.state in _OF_SERVER


class OtherLock(NamedTuple):
    """A lock of another session on the object for whose lock a session waits."""

    waiter_pid: int
    awaited_kind: str
    """Like ``SHARED_WRITE``."""
    kind: str
    is_pending: bool
    """Whether the other session waits for it, too."""
    pid: int
    """0 if its session has ended and left the lock to a prepared XA transaction."""
    statement: str = ""
    """What the other session executes; empty if nothing."""
    user_lock: str = ""
    """The name of the lock, if it is one of GET_LOCK."""


class Blockers(NamedTuple):
    """For whom a session waits, by numbers of sessions; 0: a transaction without a session."""

    holders: tuple[int, ...] = ()
    ahead: tuple[int, ...] = ()
    """Changes of the table that wait themselves. What they hold ends with their statement."""
    user_lock: str = ""
    """The name of the lock, if it is one of GET_LOCK."""


def read_metadata_waits(server: Any) -> list[MetadataWait]:
    """Return the sessions that wait, the longest first; without PROCESS only the user's own. Raises PyMySQL's errors."""
    return [
        MetadataWait(int(pid), str(user), float(waits_s or 0), str(state), str(info))
        for pid, user, waits_s, state, info in server.fetch(_WAITING)
    ]


def read_metadata_blockers(server: Any) -> dict[int, Blockers]:
    """Return, by session that waits, for whom; empty if the server does not record it. Raises PyMySQL's errors."""
    return find_blockers(
        [
            OtherLock(int(waiter), str(awaited), str(kind), bool(int(pending)), int(pid), str(statement), str(name))
            for waiter, awaited, kind, pending, pid, statement, name in server.fetch(_LOCKS)
        ]
    )


def find_blockers(locks: Sequence[OtherLock]) -> dict[int, Blockers]:
    """Return, by session that waits, for whom it waits directly."""
    by_waiter: dict[int, list[OtherLock]] = {}
    for lock in locks:
        by_waiter.setdefault(lock.waiter_pid, []).append(lock)
    found: dict[int, Blockers] = {}
    for waiter, others in by_waiter.items():
        granted = [one for one in others if not one.is_pending]
        conflicting = [one for one in granted if _is_in_conflict(one)]
        # The kind that is shown is the one before an upgrade: a change that copies the table has SHARED_UPGRADABLE, and excludes writers.
        upgradable = [one for one in granted if one.kind == "SHARED_UPGRADABLE"]
        # A lock that excludes everybody is asked for before those that wait for less.
        before = [one for one in others if one.is_pending and one.awaited_kind in _CONFLICTS and _is_in_conflict(one)]
        # Otherwise it waits for MariaDB's LOCK TABLES READ, which is shown as SHARED_READ.
        blocking = {one.pid: one for one in conflicting or upgradable or before or granted}
        ahead = tuple(pid for pid, one in blocking.items() if pid in by_waiter and is_change(one.statement))
        found[waiter] = Blockers(tuple(pid for pid in blocking if pid not in ahead), ahead, others[0].user_lock)
    return {waiter: blockers for waiter, blockers in found.items() if blockers.holders or blockers.ahead}


def _is_in_conflict(lock: OtherLock) -> bool:
    conflicts = _CONFLICTS.get(lock.awaited_kind)
    return conflicts is None or lock.kind in conflicts


def describe_unrecorded() -> NotVisible:
    """Return that the server does not record who holds metadata locks, as is MariaDB's default."""
    return NotVisible(
        what="who holds the metadata lock for which sessions wait",
        why="the performance schema does not record metadata locks",
        remedy="UPDATE performance_schema.setup_instruments SET enabled = 'YES' WHERE name = 'wait/lock/metadata/sql/mdl'; "
        "records the locks that are taken afterwards, if the server runs with performance_schema = on",
    )
