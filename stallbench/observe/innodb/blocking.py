"""Which sessions wait for row locks, metadata locks or those of GET_LOCK, who blocks them, and how many deadlocks did the server break?"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import islice
from typing import TypeVar

import pymysql

from stallbench.base.number_text import format_plural
from stallbench.engines.innodb.collectors.locks import read_deadlock_count
from stallbench.engines.innodb.deadlock_report import parse_deadlock
from stallbench.engines.innodb.literals import LITERALS
from stallbench.engines.innodb.views import OpenTransaction, read_open_transactions
from stallbench.observe.diagnostic import Diagnostic, Finding, NotVisible, Reading, Remedy, Section, Severity
from stallbench.observe.formatting import format_age, shorten_text
from stallbench.observe.innodb.lock_waits import METADATA_LOCK, ROW
from stallbench.observe.innodb.metadata_locks import MEANS, SERVER_LOCK
from stallbench.observe.innodb.sessions import InnoDBSessionDetails, end_session, is_change, read_sessions, statement_to_cancel
from stallbench.observe.lock_waits import LockWait, Session
from stallbench.observe.thresholds import BRIEF_S
from stallbench.observe.wait_tree import MOST_SHOWN, WaitTree, judge_wait, longest_s

_LISTING = "SHOW ENGINE INNODB STATUS"

FoundT = TypeVar("FoundT")


_MEANS_OF = {METADATA_LOCK: MEANS, SERVER_LOCK: "nobody can write before it is released"}


class InnoDBBlockingDiagnostic(Diagnostic):
    """Shows who waits for whom as trees, each below the session that is to be ended."""

    name = "blocking"
    what = "blocked sessions, their blockers and deadlocks"
    position = 40

    def __init__(self) -> None:
        """Know no earlier count of deadlocks."""
        self._deadlocks: tuple[int, float] | None = None

    def read(self, reading: Reading) -> Section:
        """Return the sessions that wait, below those for which they wait, and the deadlocks since the last reading."""
        not_visible: list[NotVisible] = []
        tree = read_tree(reading)
        waits = tree.waits
        is_for_metadata = any(one.kind == METADATA_LOCK for one in waits.by_session.values())
        findings = tree.judge_heads(
            self.name,
            lambda head: [end_head(head, tree)],
            lambda session: Remedy(
                statement=statement_to_cancel(session), caution=f"ends the {tree.command_of(session)} of session {session}"
            ),
            MEANS if is_for_metadata else "",
        )
        unknown = [one for one in waits.by_session.values() if not one.blockers]
        transactions = (
            _read_if_allowed(lambda: read_open_transactions(reading.server), "open transactions", not_visible)
            if unknown
            else None
        )
        for kind in dict.fromkeys(one.kind for one in unknown):
            of_kind = [one for one in unknown if one.kind == kind]
            findings += _judge_unknown(of_kind, tree, self.name, transactions or ())
        sentences = _count(reading, tree)
        deadlocks = _read_if_allowed(lambda: read_deadlock_count(reading.server), "the number of deadlocks", not_visible)
        if deadlocks is not None:
            sentences.append(f"{format_plural(deadlocks, 'deadlock')} since the server was started.")
            before, self._deadlocks = self._deadlocks, (deadlocks, reading.at_s)
            if before and deadlocks > before[0]:
                new, over_s = format_plural(deadlocks - before[0], "deadlock"), reading.at_s - before[1]
                latest = _read_if_allowed(lambda: _describe_latest(reading), "the statements of the latest deadlock", not_visible)
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
            columns=("session", "blocks", "waits", "for", "statement") if waits else (),
            rows=tuple(islice(tree.list_rows(), MOST_SHOWN)),
            sentences=tuple(sentences),
            says_nothing=not waits and not deadlocks,
            findings=tuple(findings),
            not_visible=tuple(not_visible),
        )


def _count(reading: Reading, tree: WaitTree) -> list[str]:
    """Return how many wait, and for what nobody does."""
    kinds = [one.kind for one in tree.waits.by_session.values()]
    sentences = [tree.count()] if kinds else []
    if tree.waits.is_complete and ROW not in kinds:
        sentences.append("No session waits for a row lock.")
    if METADATA_LOCK not in kinds:
        seen = "" if reading.state.sees_all else " that this user may see"
        sentences.append(f"No session{seen} waits for a metadata lock.")
    return sentences


def read_tree(reading: Reading) -> WaitTree:
    """Return who waits for whom, with what is known of these sessions."""
    waits = reading.state.lock_waits
    sessions = read_sessions(reading.server, [*waits.heads, *waits.by_session], sees_all=reading.state.sees_all)
    return WaitTree(waits=waits, sessions=sessions, literals=LITERALS, name_without_session=str)


def end_head(head: Session, tree: WaitTree) -> Remedy:
    """Return the statement that ends what the head of chains of waits holds; none for a transaction without a session."""
    if not isinstance(head, int):
        return Remedy()
    session = tree.sessions.get(head)
    assert session is None or isinstance(session, InnoDBSessionDetails), "of this family of engines"
    return end_session(head, session, advisory=tree.find_advisory_key(head))


def _describe_unknown_holder(waiting: Sequence[LockWait], transactions: Sequence[OpenTransaction]) -> str:
    """Return who may hold a metadata lock. A transaction that began after the first wait did not cause it; the server gives whole seconds."""
    others = "a session that has executed LOCK TABLES, or a prepared XA transaction"
    began_before = [
        one
        for one in transactions
        if one.age_s + 1 > longest_s(waiting) and one.thread_id not in [wait.session for wait in waiting]
    ]
    if len(began_before) != 1:
        return f"look for the oldest transaction, {others}"
    (one,) = began_before
    doing = "idle" if one.state == "sleep" else one.state
    return f"it is one of these: session {one.thread_id} (user {one.user}, {doing}), which has the only transaction that began before; {others}"


def _judge_unknown(
    waiting: list[LockWait], tree: WaitTree, subject: str, transactions: Sequence[OpenTransaction]
) -> list[Finding]:
    """Return a finding for the sessions that wait for one kind of lock whose holder is not known.

    It has the change of a table behind which the others wait, if there is one.
    """
    if longest_s(waiting) < BRIEF_S:
        return []
    waiting = sorted(waiting, key=lambda one: -(one.waits_s or 0.0))
    first = waiting[0]
    holder = "a session that has called GET_LOCK, and needs no transaction for it"
    if first.suspected:
        holder = (
            f"its statement names a lock that session {first.suspected} holds, which does not prove that it waits for that lock"
        )
    if first.kind == METADATA_LOCK:
        holder = _describe_unknown_holder(waiting, transactions)
    if first.kind == SERVER_LOCK:
        holder = "look for a backup, or for an idle session that has executed FLUSH TABLES WITH READ LOCK; UNLOCK TABLES there releases it"
    is_behind_change = len(waiting) > 1 and is_change(first.statement)
    count = format_plural(len(waiting) - 1, "session")
    return [
        Finding(
            severity=judge_wait(waiting),
            subject=subject,
            about="metadata locks",
            sentence=f"{format_plural(len(waiting), 'session waits', 'sessions wait')} for a {first.kind}, "
            f"the longest for {format_age(first.waits_s)} (session {first.session}: {shorten_text(first.statement, LITERALS, 70)}). "
            f"Who holds it is not known: {holder}.",
            because=_MEANS_OF.get(first.kind, ""),
            statement=statement_to_cancel(first.session) if is_behind_change else "",
            caution=f"ends the {tree.command_of(first.session)} of session {first.session}, which must be repeated; {count} behind it "
            f"{'continues' if len(waiting) == 2 else 'continue'}, unless the unknown holder excludes {'it' if len(waiting) == 2 else 'them'}, too"
            if is_behind_change
            else "",
        )
    ]


def _describe_latest(reading: Reading) -> str:
    """Return the statements of the latest deadlock; empty if the server lists none. Raises PyMySQL's errors: the listing needs PROCESS."""
    rows = reading.server.fetch(_LISTING)
    latest = parse_deadlock(str(rows[0][2])) if rows else None
    if latest is None:
        return ""
    return " The latest: " + " / ".join(shorten_text(one.sql, LITERALS, 70) for one in latest.transactions) + "."


def _read_if_allowed(read: Callable[[], FoundT], what: str, not_visible: list[NotVisible]) -> FoundT | None:
    """Return what ``read`` finds; none if the server refuses, which is added to ``not_visible``, so that the rest of the section is shown."""
    try:
        return read()
    except pymysql.Error as error:
        not_visible.append(NotVisible(what=what, why=str(error.args[-1])))
        return None
