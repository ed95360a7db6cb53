"""Which sessions wait for a lock, who is at the head of their chains, which ways end the wait, and does the server break deadlocks?"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from itertools import islice
from typing import Any

from stallbench.base.number_text import format_plural
from stallbench.engines.postgres.literals import LITERALS
from stallbench.observe.diagnostic import HORIZON, Diagnostic, Finding, Reading, Remedy, Section, Severity
from stallbench.observe.formatting import capitalize_first, format_age
from stallbench.observe.lock_waits import LockWaits, Session
from stallbench.observe.postgres.sessions import (
    SessionDetails,
    end_prepared,
    end_session,
    read_sessions,
    statement_to_cancel,
)
from stallbench.observe.thresholds import BRIEF_S
from stallbench.observe.wait_tree import MOST_SHOWN, WaitTree, judge_wait, longest_s

_COUNTS = """
SELECT deadlocks, pg_catalog.date_part('epoch', pg_catalog.clock_timestamp() - stats_reset)
FROM pg_catalog.pg_stat_database
WHERE datname = pg_catalog.current_database()
"""
_DEADLOCK_TIMEOUT = "SELECT pg_catalog.current_setting('deadlock_timeout')"


class BlockingDiagnostic(Diagnostic):
    """Shows who waits for whom as trees, each below the session that is to be ended."""

    name = "blocking"
    what = "blocked sessions and their blockers"
    position = 40

    def __init__(self) -> None:
        """Know no earlier count of deadlocks."""
        self._deadlocks: tuple[int, float] | None = None

    def read(self, reading: Reading) -> Section:
        """Return the sessions that wait, below those for which they wait, and the deadlocks since the last reading."""
        deadlocks, reset_s = reading.server.execute(_COUNTS).fetchone() or (0, None)
        waits = reading.state.lock_waits
        sessions = read_sessions(reading.server, [one for one in (*waits.heads, *waits.by_session) if isinstance(one, int)])
        tree = replace(_make_tree(waits, sessions), described=reading.state.described.get(HORIZON, frozenset()))
        rows = tuple(islice(tree.list_rows(), MOST_SHOWN))
        findings = tree.judge_heads(
            self.name,
            lambda head: _list_ways(head, tree, sessions),
            lambda session: _cancel(session, tree, sessions),
        )
        if waits.cycles:
            findings += _judge_deadlocks(reading.server, waits, sessions)
        counted = f"{format_plural(deadlocks, 'deadlock')} "
        counted += (
            f"since the counters were reset {format_age(reset_s)} ago" if reset_s else "in all; the counters were never reset"
        )
        if self._deadlocks is not None and deadlocks > self._deadlocks[0]:
            new, over_s = deadlocks - self._deadlocks[0], reading.at_s - self._deadlocks[1]
            findings.append(
                Finding(
                    severity=Severity.WARNING,
                    subject=self.name,
                    about="deadlocks",
                    sentence=f"The server broke {format_plural(new, 'deadlock')} in the last {format_age(over_s)}.",
                    because="each is a transaction that was rolled back; the server's log shows the statements",
                )
            )
        self._deadlocks = (deadlocks, reading.at_s)
        return Section(
            title="Blocked sessions",
            columns=("session", "blocks", "waits", "for", "statement") if rows else (),
            rows=rows,
            sentences=(tree.count() if waits else "No session waits for a lock.", f"{counted}."),
            says_nothing=not rows and not deadlocks,
            findings=tuple(findings),
        )


def describe_session(key: Session, sessions: Mapping[int, SessionDetails]) -> str:
    """Return what an engineer knows a session or a prepared transaction by."""
    return _make_tree(LockWaits(), sessions).describe(key)


def end_head(head: Session, waits: LockWaits, sessions: Mapping[int, SessionDetails]) -> Remedy:
    """Return the statement that ends what the head of chains of waits holds; none if there is none."""
    tree = _make_tree(waits, sessions)
    return tree.end_with_middle(head, _list_ways(head, tree, sessions)[0])


def _make_tree(waits: LockWaits, sessions: Mapping[int, SessionDetails]) -> WaitTree:
    return WaitTree(
        literals=LITERALS,
        waits=waits,
        sessions=sessions,
        name_without_session=lambda gid: f"prepared transaction {gid or 'of unknown name'}",
    )


def _list_ways(head: Session, tree: WaitTree, sessions: Mapping[int, SessionDetails]) -> list[Remedy]:
    """Return the ways to end what a head holds."""
    if isinstance(head, str):
        return [end_prepared(head), *([end_prepared(head, commits=True)] if head else [])]
    key = tree.find_advisory_key(head)
    if not key:
        return [end_session(head, sessions.get(head))]
    unlock = Remedy(
        statement=f"SELECT pg_catalog.pg_advisory_unlock({key});", where="in that session itself", caution="leaves its connection"
    )
    return [end_session(head, sessions.get(head), advisory=key), unlock]


def _cancel(session: int, tree: WaitTree, sessions: Mapping[int, SessionDetails]) -> Remedy:
    """Return what ends the wait of a session that holds nothing that those behind it want."""
    details = sessions.get(session)
    back = " and rolls its transaction back" if details and details.is_in_block and details.has_written else ""
    return Remedy(
        statement=statement_to_cancel(session), caution=f"ends the {tree.command_of(session)} of session {session}{back}"
    )


def _judge_deadlocks(server: Any, waits: LockWaits, sessions: Mapping[int, SessionDetails]) -> list[Finding]:
    ((timeout,),) = server.execute(_DEADLOCK_TIMEOUT).fetchall()
    findings = []
    for cycle in waits.cycles:
        waiting = [waits.by_session[one] for one in cycle]
        if longest_s(waiting) < BRIEF_S:
            continue
        youngest = min(cycle, key=lambda one: (sessions[one].transaction_s or 0.0) if one in sessions else 0.0)
        remedy = end_session(youngest, sessions.get(youngest))
        findings.append(
            Finding(
                severity=judge_wait(waiting),
                subject=BlockingDiagnostic.name,
                about=f"deadlock of {', '.join(map(str, cycle))}",
                sentence=f"{capitalize_first(', '.join(describe_session(one, sessions) for one in cycle))} wait for each other "
                f"for {format_age(longest_s(waiting))}: a deadlock, which the server breaks itself after deadlock_timeout ({timeout}). "
                f"The transaction of session {youngest} is the youngest.",
                statement=remedy.statement,
                caution=f"{remedy.caution}; the others continue",
            )
        )
    return findings
