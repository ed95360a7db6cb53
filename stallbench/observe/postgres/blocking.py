"""Which sessions wait for a lock, who is at the head of their chains, which ways end the wait, and does the server break deadlocks?"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from typing import Any

from stallbench.observe.formatting import capitalize_first, format_age, format_plural, shorten_text
from stallbench.observe.lock_waits import LockWait, LockWaits, Session
from stallbench.observe.postgres.sessions import (
    SessionDetails,
    end_prepared,
    end_session,
    read_sessions,
    statement_to_cancel,
)
from stallbench.observe.subject import Finding, Look, Remedy, Section, Severity, Subject
from stallbench.observe.thresholds import BRIEF_S, LONG_WAIT_S

_MOST_SHOWN = 20
_MOST_FINDINGS = 3
_MOST_NAMED = 3
_COUNTS = """
SELECT deadlocks, pg_catalog.date_part('epoch', pg_catalog.clock_timestamp() - stats_reset)
FROM pg_catalog.pg_stat_database
WHERE datname = pg_catalog.current_database()
"""
_DEADLOCK_TIMEOUT = "SELECT pg_catalog.current_setting('deadlock_timeout')"


class BlockingSubject(Subject):
    """Shows who waits for whom as trees, each below the session that is to be ended."""

    name = "blocking"
    what = "blocked sessions and their blockers"
    position = 40

    def __init__(self) -> None:
        """Know no earlier count of deadlocks."""
        self._deadlocks: tuple[int, float] | None = None

    def look(self, look: Look) -> Section:
        """Return the sessions that wait, below those for which they wait, and the deadlocks since the last look."""
        deadlocks, reset_s = look.server.execute(_COUNTS).fetchone() or (0, None)
        waits = look.known.lock_waits
        sessions = read_sessions(look.server, [one for one in (*waits.heads, *waits.by_session) if isinstance(one, int)])
        heads = [*waits.heads, *(min(cycle) for cycle in waits.cycles)]
        rows = list(islice((row for head in heads for row in _list_tree(head, waits, sessions)), _MOST_SHOWN))
        findings = [
            _judge(head, waits, sessions) for head in waits.heads[:_MOST_FINDINGS] if _is_lasting(waits.find_blocked(head))
        ]
        if waits.cycles:
            findings += _judge_deadlocks(look.server, waits, sessions)
        counted = f"{format_plural(deadlocks, 'deadlock')} "
        counted += (
            f"since the counters were reset {format_age(reset_s)} ago" if reset_s else "in all; the counters were never reset"
        )
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
            columns=("session", "blocks", "waits", "for", "statement") if rows else (),
            rows=tuple(rows),
            sentences=(_count(waits), f"{counted}."),
            says_nothing=not rows and not deadlocks,
            findings=tuple(findings),
        )


def describe_session(key: Session, sessions: Mapping[int, SessionDetails]) -> str:
    """Return what an engineer knows a session or a prepared transaction by."""
    if isinstance(key, str):
        return f"prepared transaction {key or 'of unknown name'}"
    return sessions[key].name if key in sessions else f"session {key}"


def end_head(head: Session, waits: LockWaits, sessions: Mapping[int, SessionDetails]) -> Remedy:
    """Return the statement that ends what the head of chains of waits holds; none if there is none."""
    if isinstance(head, str):
        remedy = end_prepared(head)
    else:
        remedy = end_session(head, sessions.get(head), advisory=_find_advisory_key(waits.find_blocked(head), head))
    middle = _find_middle(waits.find_blocked(head), waits)
    if middle is None or not remedy.statement:
        return remedy
    then = (
        f"the {_command_of(middle, sessions)} of session {middle} then continues, and those behind it wait until that has ended"
    )
    return replace(remedy, caution=f"{remedy.caution}; {then}")


def _count(waits: LockWaits) -> str:
    if not waits:
        return "No session waits for a lock."
    count = format_plural(len(waits.by_session), "session waits", "sessions wait")
    more = f" The first {_MOST_SHOWN} rows are shown." if len(waits.by_session) + len(waits.heads) > _MOST_SHOWN else ""
    return f"{'' if waits.is_complete else 'At least '}{count} for a lock, each shown below the one for which it waits.{more}"


def _list_tree(head: Session, waits: LockWaits, sessions: Mapping[int, SessionDetails]) -> Iterator[tuple[str, ...]]:
    doing = sessions[head].doing if isinstance(head, int) and head in sessions else ""
    yield describe_session(head, sessions), str(len(waits.find_blocked(head))), "", "", doing
    for depth, wait in waits.walk(head):
        behind = len(waits.find_blocked(wait.session))
        session = sessions.get(wait.session)
        text = shorten_text(session.query, 60) if session else ""
        name = f"{'   ' * (depth - 1)}└─ {describe_session(wait.session, sessions)}"
        yield name, str(behind) if behind else "", format_age(wait.waits_s), wait.lock, text


def _is_lasting(blocked: Sequence[LockWait]) -> bool:
    return _longest_s(blocked) >= BRIEF_S


def _longest_s(blocked: Iterable[LockWait]) -> float:
    return max((one.waits_s or 0.0 for one in blocked), default=0.0)


def _judge(head: Session, waits: LockWaits, sessions: Mapping[int, SessionDetails]) -> Finding:
    """Return who is behind a session that does not wait itself, and the ways that end their wait."""
    blocked = waits.find_blocked(head)
    session = sessions.get(head) if isinstance(head, int) else None
    doing = f" It is {session.doing}." if session and session.doing else ""
    key = _find_advisory_key(blocked, head)
    held = f" It holds advisory lock {key}." if key else ""
    remedy = end_head(head, waits, sessions)
    middle = _find_middle(blocked, waits)
    other_ways: list[Remedy] = []
    if middle is not None:
        other_ways.append(_cancel_middle(middle, sessions, waits.find_freed(middle)))
    if key and isinstance(head, int):
        other_ways.append(
            Remedy(
                statement=f"SELECT pg_advisory_unlock({key});", where="in that session itself", caution="leaves its connection"
            )
        )
    if isinstance(head, str) and head:
        other_ways.append(end_prepared(head, commits=True))
    return Finding(
        severity=Severity.CRITICAL if _longest_s(blocked) >= LONG_WAIT_S else Severity.WARNING,
        subject=BlockingSubject.name,
        about=str(head),
        sentence=f"{capitalize_first(describe_session(head, sessions))} blocks {_count_blocked(head, waits, sessions)}, "
        f"the longest for {format_age(_longest_s(blocked))}.{held}{doing}{_name_other_heads(head, blocked, waits)}",
        statement=remedy.statement,
        where=remedy.where,
        caution=remedy.caution,
        other_ways=tuple(other_ways),
    )


def _count_blocked(head: Session, waits: LockWaits, sessions: Mapping[int, SessionDetails]) -> str:
    """Return how many are blocked, like ``7 sessions: 1 directly (the ALTER TABLE of session 12), 6 behind it``."""
    blocked = waits.find_blocked(head)
    direct = [one for one in blocked if head in one.blockers]
    count = ("" if waits.is_complete else "at least ") + format_plural(len(blocked), "session")
    if len(direct) == len(blocked):
        return count
    first = sorted(direct, key=lambda wait: -len(waits.find_blocked(wait.session)))
    names = [f"the {_command_of(one.session, sessions)} of session {one.session}" for one in first[:_MOST_NAMED]]
    more = ", ..." if len(direct) > _MOST_NAMED else ""
    return f"{count}: {len(direct)} directly ({', '.join(names)}{more}), {len(blocked) - len(direct)} behind {'it' if len(direct) == 1 else 'them'}"


def _find_middle(blocked: Iterable[LockWait], waits: LockWaits) -> int | None:
    """Return the session that waits itself, and whose end would let the most others continue; none if that lets nobody continue."""
    ahead = {one for wait in blocked if not wait.holders for one in wait.ahead if isinstance(one, int)}
    freed = {one: len(waits.find_freed(one)) for one in sorted(ahead)}
    most = max(freed, key=lambda one: freed[one], default=None)
    return most if most is not None and freed[most] else None


def _cancel_middle(session: int, sessions: Mapping[int, SessionDetails], freed: Sequence[LockWait]) -> Remedy:
    """Return what ends the wait of a session that holds nothing that those behind it want."""
    details = sessions.get(session)
    back = " and rolls its transaction back" if details and details.is_in_block and details.has_written else ""
    count = "the session behind it continues" if len(freed) == 1 else f"the {len(freed)} sessions behind it continue"
    return Remedy(
        statement=statement_to_cancel(session),
        caution=f"ends the {_command_of(session, sessions)} of session {session}{back}, which must be repeated; {count}",
    )


def _command_of(session: int, sessions: Mapping[int, SessionDetails]) -> str:
    return sessions[session].command if session in sessions else "statement"


def _find_advisory_key(blocked: Iterable[LockWait], head: Session) -> str:
    return next((one.advisory for one in blocked if one.advisory and head in one.holders), "")


def _name_other_heads(head: Session, blocked: Sequence[LockWait], waits: LockWaits) -> str:
    """Return which of the blocked would go on waiting for somebody else."""
    if len(waits.heads) == 1:
        return ""
    others = {wait.session: [one for one in waits.find_heads(wait.session) if one != head] for wait in blocked}
    also = {session: heads for session, heads in others.items() if heads}
    if not also:
        return ""
    named = list(dict.fromkeys(describe_session(one, {}) for heads in also.values() for one in heads))
    more = ", ..." if len(named) > _MOST_NAMED else ""
    verb = "waits" if len(also) == 1 else "wait"
    return f" {len(also)} of them {verb} behind {', '.join(named[:_MOST_NAMED])}{more} as well."


def _judge_deadlocks(server: Any, waits: LockWaits, sessions: Mapping[int, SessionDetails]) -> list[Finding]:
    ((timeout,),) = server.execute(_DEADLOCK_TIMEOUT).fetchall()
    findings = []
    for cycle in waits.cycles:
        longest_s = _longest_s(waits.by_session[one] for one in cycle)
        if longest_s < BRIEF_S:
            continue
        youngest = min(cycle, key=lambda one: (sessions[one].transaction_s or 0.0) if one in sessions else 0.0)
        remedy = end_session(youngest, sessions.get(youngest))
        findings.append(
            Finding(
                severity=Severity.CRITICAL if longest_s >= LONG_WAIT_S else Severity.WARNING,
                subject=BlockingSubject.name,
                about=f"deadlock of {', '.join(map(str, cycle))}",
                sentence=f"{capitalize_first(', '.join(describe_session(one, sessions) for one in cycle))} wait for each other "
                f"for {format_age(longest_s)}: a deadlock, which the server breaks itself after deadlock_timeout ({timeout}). "
                f"The transaction of session {youngest} is the youngest.",
                statement=remedy.statement,
                caution=f"{remedy.caution}; the others continue",
            )
        )
    return findings
