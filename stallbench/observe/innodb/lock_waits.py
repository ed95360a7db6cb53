"""Who waits for whom on a MariaDB or MySQL server: for rows, for metadata locks, and for the locks of GET_LOCK.

InnoDB counts the sessions that wait for rows. The list of sessions shows who waits for another lock; who holds that, and which lock of GET_LOCK it
is, is known only to the performance schema. A statement is what its user has written: the lock that it names is shown as such, and no more.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import pymysql

from stallbench.base.number_text import format_plural
from stallbench.engines.innodb.literals import LITERALS
from stallbench.observe.diagnostic import Diagnostic, NotVisible, Reading, Section
from stallbench.observe.formatting import shorten_text
from stallbench.observe.innodb.metadata_locks import (
    SERVER_LOCK,
    Blockers,
    MetadataWait,
    describe_unrecorded,
    read_metadata_blockers,
    read_metadata_waits,
)
from stallbench.observe.innodb.sessions import NO_SESSION
from stallbench.observe.lock_waits import LockWait, LockWaits, Session
from stallbench.sql_literals import split_literals

ROW, METADATA_LOCK, USER_LOCK = "a row", "metadata lock", "lock of GET_LOCK"
"""With `SERVER_LOCK` the kinds of locks for which a session waits."""
_COUNT = "SHOW GLOBAL STATUS LIKE 'Innodb_row_lock_current_waits'"
_MOST_WAITS = 5000
# Each that waits for a row waits for whoever holds it and for all that wait before it.
_ROW_WAITS = f"""
SELECT waiting_pid, blocking_pid, wait_age_secs, concat_ws(' ', waiting_lock_mode, 'on', locked_table, locked_index)
FROM sys.x$innodb_lock_waits ORDER BY wait_age_secs DESC LIMIT {_MOST_WAITS}
"""
_GET_LOCK = re.compile(r"\s*(?:SELECT|DO)\s+get_lock\s*\(\s*\?\s*,\s*-?\s*\?\s*\)\s*;?\s*", re.IGNORECASE)
"""Without constants and comments."""
_NAME = re.compile(r"'((?:[^'\\]|'')*)'")
_EXECUTED_COMMENT = re.compile(r"/\*M?!")
_USED_BY = "SELECT is_used_lock(%s)"


class InnoDBLockWaitsDiagnostic(Diagnostic):
    """Reads who waits for whom only if a session waits."""

    name = "lock waits"
    what = "who waits for whom"
    position = 5

    def read(self, reading: Reading) -> Section:
        """Return no table: other subjects show what it found."""
        not_visible: list[NotVisible] = []
        reading.state.lock_waits = LockWaits()
        rows = reading.server.fetch(_COUNT)
        waiting = int(rows[0][1]) if rows else 0
        row_waits: list[LockWait] = []
        is_complete = True
        if waiting:
            try:
                row_waits = _read_row_waits(reading.server)
                is_complete = len(row_waits) < _MOST_WAITS
            except pymysql.Error as error:
                is_complete = False
                not_visible.append(
                    NotVisible(what=f"who blocks {format_plural(waiting, 'waiting session')}", why=str(error.args[-1]))
                )
        metadata_waits = read_metadata_waits(reading.server)
        blockers: Mapping[int, Blockers] = {}
        if metadata_waits:
            try:
                blockers = read_metadata_blockers(reading.server)
                if not blockers and any(not one.is_of_server for one in metadata_waits):
                    not_visible.append(describe_unrecorded())
            except pymysql.Error as error:
                not_visible.append(
                    NotVisible(what="who holds the metadata lock for which sessions wait", why=str(error.args[-1]))
                )
        others = [_make_wait(reading.server, one, blockers.get(one.pid)) for one in metadata_waits]
        reading.state.lock_waits = LockWaits([*row_waits, *others], is_complete=is_complete)
        return Section(title="", not_visible=tuple(not_visible))


def _read_row_waits(server: Any) -> list[LockWait]:
    rows = [(int(pid), int(blocker or 0), age_s, _plain(lock)) for pid, blocker, age_s, lock in server.fetch(_ROW_WAITS)]
    blockers: dict[int, dict[int, None]] = {}
    for pid, blocker, _, _ in rows:
        blockers.setdefault(pid, {})[blocker] = None
    return [
        LockWait(
            session=pid,
            waits_s=None if age_s is None else float(age_s),
            lock=f"{ROW}: {lock}",
            kind=ROW,
            # Those that wait themselves hold nothing of it, if one that does not wait is there.
            holders=_name_sessions([one for one in blockers[pid] if one not in blockers] or list(blockers[pid])),
        )
        for pid, age_s, lock in {pid: (pid, age_s, lock) for pid, _, age_s, lock in reversed(rows)}.values()
    ]


def _make_wait(server: Any, wait: MetadataWait, blockers: Blockers | None) -> LockWait:
    holders, ahead = (blockers.holders, blockers.ahead) if blockers and not wait.is_of_server else ((), ())
    key = _quote(blockers.user_lock) if blockers and blockers.user_lock else ""
    named, suspected = "", 0
    if wait.is_user_lock and not key and (name := find_lock_name(wait.statement)) is not None:
        named = _quote(name)
        ((holder,),) = server.fetch(_USED_BY, (name,))
        suspected = int(holder or 0)
    return LockWait(
        session=wait.pid,
        waits_s=wait.waits_s,
        lock=_describe_lock(wait, key, named),
        kind=USER_LOCK if wait.is_user_lock else SERVER_LOCK if wait.is_of_server else METADATA_LOCK,
        statement=wait.statement,
        holders=_name_sessions(holders),
        ahead=_name_sessions(ahead),
        advisory=key,
        suspected=0 if suspected == wait.pid else suspected,
    )


def find_lock_name(statement: str) -> str | None:
    """Return which lock a statement names that is nothing but a call of GET_LOCK; none of another one."""
    hidden, constants = split_literals(statement, LITERALS)
    if not _GET_LOCK.fullmatch(hidden) or len(constants) != 2 or _EXECUTED_COMMENT.search(statement):
        return None
    name, patience_s = constants
    match = _NAME.fullmatch(name)
    return match[1].replace("''", "'") if match and patience_s[0] in ".0123456789" else None


def _quote(name: str) -> str:
    return "'" + name.replace("'", "''") + "'"


def _describe_lock(wait: MetadataWait, key: str, named: str) -> str:
    if wait.is_user_lock:
        return f"the lock {key or 'of GET_LOCK'}" + (f"; its statement names {named}" if named else "")
    name = wait.state.removeprefix("Waiting for ")
    return f"{SERVER_LOCK} ({name})" if wait.is_of_server else name


def _name_sessions(pids: Sequence[int]) -> tuple[Session, ...]:
    return tuple(pid or NO_SESSION for pid in pids)


def _plain(lock: object) -> str:
    text = lock.decode() if isinstance(lock, bytes) else str(lock)
    return shorten_text(text.replace("`", ""), LITERALS)
