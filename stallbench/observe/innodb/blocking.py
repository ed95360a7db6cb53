"""Which sessions wait for row locks or metadata locks, who blocks them, and how many deadlocks did the server break?"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import pymysql

from stallbench.collectors.innodb_locks import read_blocked, read_deadlock_count
from stallbench.collectors.locks import BlockedSession
from stallbench.deadlocks.innodb import parse_deadlock
from stallbench.observe.formatting import capitalize_first, format_age, format_plural, shorten_text
from stallbench.observe.innodb.metadata_locks import (
    NO_SESSION,
    MetadataHolder,
    describe_unrecorded,
    judge_metadata_waits,
    list_metadata_waits,
    read_metadata_holders,
    read_metadata_waits,
)
from stallbench.observe.subject import Finding, Look, Section, Severity, Subject, Unseen
from stallbench.observe.thresholds import BRIEF_S, LONG_WAIT_S

_WAITING = "SHOW GLOBAL STATUS LIKE 'Innodb_row_lock_current_waits'"
_ROW_WAITS = "SELECT trx_mysql_thread_id FROM information_schema.innodb_trx WHERE trx_state = 'LOCK WAIT'"
_LISTING = "SHOW ENGINE INNODB STATUS"

FoundT = TypeVar("FoundT")


class InnoDBBlockingSubject(Subject):
    """Reads the counters first; who blocks whom only if a session waits."""

    name = "blocking"
    what = "blocked sessions, their blockers and deadlocks"
    position = 40

    def __init__(self) -> None:
        """Know no earlier count of deadlocks."""
        self._deadlocks: tuple[int, float] | None = None

    def look(self, look: Look) -> Section:
        """Return the sessions that have waited longest with their blockers, and the deadlocks since the last look."""
        rows = look.server.fetch(_WAITING)
        waiting = int(rows[0][1]) if rows else 0
        unseen: list[Unseen] = []
        blocked = (
            _read_if_allowed(lambda: read_blocked(look.server), f"who blocks {format_plural(waiting, 'waiting session')}", unseen)
            if waiting
            else []
        ) or []
        metadata_waits = read_metadata_waits(look.server)
        holders = (
            _read_if_allowed(
                lambda: read_metadata_holders(look.server, _read_row_waits(look.server, blocked)),
                "who holds the metadata lock for which sessions wait",
                unseen,
            )
            if metadata_waits
            else {}
        )
        if metadata_waits and holders is not None and not holders:
            unseen.append(describe_unrecorded())
        findings = judge_metadata_waits(metadata_waits, holders or {}, self.name)
        chains = {one.pid for one in blocked}
        roots = Counter(one.blocker_pid for one in blocked if one.blocker_pid not in chains)
        for pid, count in roots.most_common(3):
            longest_s = max(one.blocked_s or 0.0 for one in blocked if one.blocker_pid == pid)
            if longest_s >= BRIEF_S:
                findings.append(
                    Finding(
                        severity=Severity.CRITICAL if longest_s >= LONG_WAIT_S else Severity.WARNING,
                        subject=self.name,
                        about=str(pid),
                        sentence=f"{capitalize_first(NO_SESSION) if pid == 0 else f'Session {pid}'} blocks {format_plural(count, 'session')}, "
                        f"the longest for {format_age(longest_s)}.",
                        statement=f"KILL {pid};" if pid else "",
                        caution="rolls its transaction back and closes its connection" if pid else "",
                    )
                )
        sentences = [] if waiting else ["No session waits for a row lock."]
        if not metadata_waits:
            seen = "" if look.known.sees_all else " that this user may see"
            sentences.append(f"No session{seen} waits for a metadata lock.")
        deadlocks = _read_if_allowed(lambda: read_deadlock_count(look.server), "the number of deadlocks", unseen)
        if deadlocks is not None:
            sentences.append(f"{format_plural(deadlocks, 'deadlock')} since the server was started.")
            before, self._deadlocks = self._deadlocks, (deadlocks, look.at_s)
            if before and deadlocks > before[0]:
                new, over_s = format_plural(deadlocks - before[0], "deadlock"), look.at_s - before[1]
                latest = _read_if_allowed(lambda: _describe_latest(look), "the statements of the latest deadlock", unseen)
                findings.append(
                    Finding(
                        severity=Severity.WARNING,
                        subject=self.name,
                        about="deadlocks",
                        sentence=f"The server broke {new} in the last {format_age(over_s)}.{latest or ''}",
                        because="each is a transaction that was rolled back",
                    )
                )
        return Section(
            title="Blocked sessions",
            columns=("session", "waits", "for", "blocked by") if blocked or metadata_waits else (),
            rows=list_metadata_waits(metadata_waits, holders or {})
            + tuple(
                (
                    f"session {one.pid}",
                    format_age(one.blocked_s),
                    one.lock,
                    f"session {one.blocker_pid} (user {one.blocker_application})" if one.blocker_pid else NO_SESSION,
                )
                for one in blocked
            ),
            sentences=tuple(sentences),
            says_nothing=not blocked and not metadata_waits and not deadlocks,
            findings=tuple(findings),
            unseen=tuple(unseen),
        )


def _read_row_waits(server: Any, blocked: Sequence[BlockedSession]) -> dict[int, list[MetadataHolder]]:
    """Return, by session that waits for a row lock, who blocks it; empty lists for those that are not among the first in ``blocked``."""
    waits: dict[int, list[MetadataHolder]] = {}
    if blocked:
        waits = {int(pid): [] for (pid,) in server.fetch(_ROW_WAITS)}
        for one in blocked:
            waits.setdefault(one.pid, []).append(MetadataHolder(one.blocker_pid, one.blocker_application, ""))
    return waits


def _describe_latest(look: Look) -> str:
    """Return the statements of the latest deadlock; empty if the server lists none. Raises PyMySQL's errors: the listing needs PROCESS."""
    rows = look.server.fetch(_LISTING)
    latest = parse_deadlock(str(rows[0][2])) if rows else None
    if latest is None:
        return ""
    return " The latest: " + " / ".join(shorten_text(one.sql, 70) for one in latest.transactions) + "."


def _read_if_allowed(read: Callable[[], FoundT], what: str, unseen: list[Unseen]) -> FoundT | None:
    """Return what ``read`` finds; none if the server refuses, which is added to ``unseen``, so that the rest of the section is shown."""
    try:
        return read()
    except pymysql.Error as error:
        unseen.append(Unseen(what=what, why=str(error.args[-1])))
        return None
