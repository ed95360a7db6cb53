"""Who waits for whom on a PostgreSQL server. Read before all that names somebody to be ended: a session that waits is not the cause."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from stallbench.observe.diagnostic import Diagnostic, Reading, Section
from stallbench.observe.lock_waits import LockWait, LockWaits, Session

MOST_WAITING = 500
"""So many sessions that wait are read, those that have waited longest."""
_WAITING = """
SELECT pg_catalog.count(*) FROM pg_catalog.pg_stat_activity
WHERE wait_event_type = 'Lock' AND pid <> pg_catalog.pg_backend_pid()
"""
# pg_locks stops the lock manager for a moment, so it is read once; so does pg_blocking_pids, which is called once for each session that waits. The
# sessions behind a lock are found by the text of its object, which can be hashed, and of which no column is null.
# A prepared transaction blocks as process 0; its virtual transaction is that of the session that prepared it (of no session after a restart), so its
# lock on its own transaction id tells which one it is.
_LOCKS = """
WITH locks AS MATERIALIZED (
  SELECT pid, granted, mode, locktype, database, relation, classid, objid, objsubid, waitstart, virtualtransaction, transactionid,
    pg_catalog.concat_ws(':', locktype, database, relation, page, tuple, virtualxid, transactionid, classid, objid, objsubid) AS object
  FROM pg_catalog.pg_locks
), waiting AS MATERIALIZED (
  SELECT * FROM locks WHERE NOT granted AND pid <> pg_catalog.pg_backend_pid() ORDER BY waitstart LIMIT %(limit)s
), prepared AS (
  SELECT own.virtualtransaction, known.gid
  FROM locks AS own JOIN pg_catalog.pg_prepared_xacts AS known ON known.transaction = own.transactionid
  WHERE own.pid IS NULL AND own.locktype = 'transactionid'
)
SELECT waiting.pid, activity.leader_pid, NULL, waiting.object, waiting.mode, false,
  pg_catalog.date_part('epoch', pg_catalog.clock_timestamp() - waiting.waitstart), waiting.locktype, pg_class.relname,
  waiting.classid::pg_catalog.int8, waiting.objid::pg_catalog.int8, waiting.objsubid, pg_catalog.pg_blocking_pids(waiting.pid)
FROM waiting
LEFT JOIN pg_catalog.pg_database ON pg_database.datname = pg_catalog.current_database()
LEFT JOIN pg_catalog.pg_class ON pg_class.oid = waiting.relation AND waiting.database IN (0, pg_database.oid)
LEFT JOIN pg_catalog.pg_stat_activity AS activity ON activity.pid = waiting.pid
UNION ALL
SELECT held.pid, NULL, prepared.gid, held.object, held.mode, true, NULL, NULL, NULL, NULL, NULL, NULL, NULL
FROM locks AS held
LEFT JOIN prepared ON held.pid IS NULL AND prepared.virtualtransaction = held.virtualtransaction
WHERE held.granted AND held.object IN (SELECT waiting.object FROM waiting)
"""
# Each mode with those that it excludes, as in the documentation of explicit locking.
_MODES = (
    "AccessShareLock",
    "RowShareLock",
    "RowExclusiveLock",
    "ShareUpdateExclusiveLock",
    "ShareLock",
    "ShareRowExclusiveLock",
    "ExclusiveLock",
    "AccessExclusiveLock",
)
_EXCLUDES = {
    mode: frozenset(_MODES[number] for number in numbers)
    for mode, numbers in zip(
        _MODES,
        ((7,), (6, 7), (4, 5, 6, 7), (3, 4, 5, 6, 7), (2, 3, 5, 6, 7), (2, 3, 4, 5, 6, 7), (1, 2, 3, 4, 5, 6, 7), range(8)),
        strict=True,
    )
}
_TWO_KEYS = 2
"""``objsubid`` of an advisory lock with two keys."""


class LockRow(NamedTuple):
    """A lock that somebody waits for, or that is held on the same object."""

    pid: int | None
    leader_pid: int | None
    """Of a parallel worker."""
    gid: str | None
    """Of a prepared transaction."""
    object: str
    mode: str
    granted: bool
    waits_s: float | None
    kind: str | None
    relation: str | None
    classid: int | None
    objid: int | None
    objsubid: int | None
    blockers: Sequence[int] | None
    """The processes for which it waits; 0 for each prepared transaction."""


class LockWaitsDiagnostic(Diagnostic):
    """Reads who waits for whom only if a session waits."""

    name = "lock waits"
    what = "who waits for whom"
    position = 5

    def read(self, reading: Reading) -> Section:
        """Return no table: other subjects show what it found."""
        reading.state.lock_waits = LockWaits()
        ((waiting,),) = reading.server.execute(_WAITING).fetchall()
        # Who may not see other users' sessions may still see their locks.
        if waiting or not reading.state.sees_all:
            reading.state.lock_waits = read_lock_waits(reading.server)
        return Section(title="")


def read_lock_waits(server: Any) -> LockWaits:
    """Read the sessions that wait, and for whom. Raises psycopg's errors."""
    rows = [LockRow(*row) for row in server.execute(_LOCKS, {"limit": MOST_WAITING}).fetchall()]
    return make_graph(rows)


def make_graph(rows: Iterable[LockRow]) -> LockWaits:
    """Return who waits for whom. A parallel worker counts as the session that has started it."""
    locks = list(rows)
    waiting = [one for one in locks if not one.granted]
    held: dict[str, list[LockRow]] = {}
    for one in locks:
        if one.granted:
            held.setdefault(one.object, []).append(one)
    wanted = {(one.leader_pid or one.pid, one.object) for one in waiting}
    waits: dict[int, LockWait] = {}
    for one in waiting:
        session = one.leader_pid or one.pid or 0
        excluding = [lock for lock in held.get(one.object, ()) if lock.mode in _EXCLUDES.get(one.mode, ())]
        holding = {lock.pid for lock in excluding}
        # The holder may be a parallel worker, which the server names by its leader. Who holds nothing that excludes this lock is ahead of it.
        ahead = {pid for pid in one.blockers or () if pid not in holding and (pid, one.object) in wanted}
        found: list[Session] = [pid for pid in one.blockers or () if pid and pid not in ahead and pid != session]
        if 0 in (one.blockers or ()):
            found += [lock.gid or "" for lock in excluding if lock.pid is None] or [""]
        if session in waits:  # another worker of the same query
            found += waits[session].holders
            ahead |= {each for each in waits[session].ahead if isinstance(each, int)}
        waits[session] = LockWait(
            session=session,
            waits_s=one.waits_s,
            lock=_describe(one),
            holders=tuple(dict.fromkeys(found)),
            ahead=tuple(pid for pid in sorted(ahead) if pid != session),
            advisory=_advisory_key(one),
        )
    return LockWaits(waits.values(), is_complete=len(waiting) < MOST_WAITING)


def _describe(lock: LockRow) -> str:
    if lock.kind == "advisory":
        return f"advisory lock {_advisory_key(lock)}"
    if lock.kind == "transactionid":
        return "the end of a transaction, which has changed or locked the same row"
    if lock.kind == "tuple":
        return f"a row of {lock.relation or 'a table'}, after another session"
    if lock.kind == "virtualxid":
        return "the end of a transaction that is older"
    return " ".join(part for part in (lock.mode, "on", lock.kind, lock.relation) if part)


def _advisory_key(lock: LockRow) -> str:
    """Return the key as the application gives it: two signed numbers of 32 bits, or one of 64; empty if it is another kind of lock."""
    if lock.kind != "advisory" or lock.classid is None or lock.objid is None:
        return ""
    if lock.objsubid == _TWO_KEYS:
        return f"{_signed(lock.classid, 32)}, {_signed(lock.objid, 32)}"
    return str(_signed(lock.classid << 32 | lock.objid, 64))


def _signed(number: int, bits: int) -> int:
    return number - (1 << bits) if number >> (bits - 1) else number
