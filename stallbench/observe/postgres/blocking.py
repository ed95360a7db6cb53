"""Which sessions are blocked, who blocks them, and does the server break deadlocks?"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from stallbench.collectors.locks import BlockedSession, read_blocked
from stallbench.observe.formatting import capitalize_first, format_age, format_plural, shorten_text
from stallbench.observe.postgres.sessions import (
    SessionDetails,
    read_sessions,
    statement_to_roll_back,
    statement_to_terminate,
)
from stallbench.observe.subject import Finding, Look, Section, Severity, Subject
from stallbench.observe.thresholds import BRIEF_S, LONG_WAIT_S

_MOST_SHOWN = 8
_COUNTS = """
SELECT deadlocks, extract(epoch FROM pg_catalog.clock_timestamp() - stats_reset)::double precision,
  (SELECT pg_catalog.count(*) FROM pg_catalog.pg_stat_activity WHERE wait_event_type = 'Lock' AND pid <> pg_catalog.pg_backend_pid())
FROM pg_catalog.pg_stat_database
WHERE datname = pg_catalog.current_database()
"""


class BlockingSubject(Subject):
    """Reads the counters first; who blocks whom only if a session waits, because that query stops the lock manager for a moment."""

    name = "blocking"
    what = "blocked sessions and their blockers"
    position = 40

    def __init__(self) -> None:
        """Know no earlier count of deadlocks."""
        self._deadlocks: tuple[int, float] | None = None

    def look(self, look: Look) -> Section:
        """Return the sessions that have waited longest, with their blockers, and the deadlocks since the last look."""
        deadlocks, reset_s, waiting = look.server.execute(_COUNTS).fetchone() or (0, None, 0)
        # Who may not see other users' sessions may still see their locks.
        blocked = read_blocked(look.server) if waiting or not look.known.sees_all else []
        pids = [pid for one in blocked for pid in (one.pid, one.blocker_pid)]
        sessions = read_sessions(look.server, pids)
        rows = tuple(
            (
                _name(one.pid, sessions),
                format_age(one.blocked_s),
                one.lock,
                _name_blocker(one, sessions),
                shorten_text(sessions[one.pid].query, 60) if one.pid in sessions else "",
            )
            for one in blocked[:_MOST_SHOWN]
        )
        counted = f"{format_plural(deadlocks, 'deadlock')} "
        counted += (
            f"since the counters were reset {format_age(reset_s)} ago" if reset_s else "in all; the counters were never reset"
        )
        findings = _judge(blocked, sessions)
        if self._deadlocks is not None and deadlocks > self._deadlocks[0]:
            new, over_s = deadlocks - self._deadlocks[0], look.at_s - self._deadlocks[1]
            findings.append(
                Finding(
                    severity=Severity.WARNING,
                    subject=self.name,
                    about="deadlocks",
                    sentence=f"The server broke {format_plural(new, 'deadlock')} in the last {format_age(over_s)}.",
                    because="each is a transaction that was rolled back; the server's log shows the statements",
                )
            )
        self._deadlocks = (deadlocks, look.at_s)
        return Section(
            title="Blocked sessions",
            columns=("session", "waits", "for", "blocked by", "statement") if rows else (),
            rows=rows,
            sentences=(*(() if rows else ("No session waits for a lock.",)), f"{counted}."),
            says_nothing=not rows and not deadlocks,
            findings=tuple(findings),
        )


def _judge(blocked: Sequence[BlockedSession], sessions: Mapping[int, SessionDetails]) -> list[Finding]:
    """Return a finding for each session that blocks others and does not wait itself, the one that blocks most first."""
    waiting = {one.pid for one in blocked}
    roots = Counter(_key(one) for one in blocked if one.blocker_pid not in waiting)
    findings = []
    for (pid, gid), count in roots.most_common(3):
        longest_s = max((one.blocked_s or 0.0 for one in blocked if _key(one) == (pid, gid)), default=0.0)
        if longest_s < BRIEF_S:
            continue
        session = sessions.get(pid)
        who = (
            f"Prepared transaction {gid or 'of unknown name'}"
            if pid == 0
            else capitalize_first(session.name)
            if session
            else f"Session {pid}"
        )
        doing = f" It is {session.doing}." if session and session.doing else ""
        behind = len(blocked) - count
        waits = "waits" if behind == 1 else "wait"
        queued = f" {format_plural(behind, 'other session')} {waits} as well." if behind else ""
        findings.append(
            Finding(
                severity=Severity.CRITICAL if longest_s >= LONG_WAIT_S else Severity.WARNING,
                subject=BlockingSubject.name,
                about=gid or str(pid),
                sentence=f"{who} blocks {format_plural(count, 'session')}, the longest for {format_age(longest_s)}.{doing}{queued}",
                statement=statement_to_roll_back(gid) if pid == 0 and gid else statement_to_terminate(pid) if pid else "",
                caution="rolls its transaction back" + ("" if pid == 0 else " and closes its connection"),
            )
        )
    return findings


def _key(one: BlockedSession) -> tuple[int, str]:
    return one.blocker_pid, one.prepared_gid


def _name(pid: int, sessions: Mapping[int, SessionDetails]) -> str:
    return sessions[pid].name if pid in sessions else f"session {pid}"


def _name_blocker(one: BlockedSession, sessions: Mapping[int, SessionDetails]) -> str:
    return one.blocker_application if one.blocker_pid == 0 else _name(one.blocker_pid, sessions)
