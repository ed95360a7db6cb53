"""What the report says of sessions that wait for locks, on any engine: their tree, and a finding for each session at the head of one."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from stallbench.base.number_text import format_plural
from stallbench.observe.diagnostic import Finding, Remedy, Severity
from stallbench.observe.formatting import capitalize_first, format_age, shorten_text
from stallbench.observe.lock_waits import LockWait, LockWaits, Session
from stallbench.observe.thresholds import BRIEF_S, LONG_WAIT_S
from stallbench.sql_literals import LiteralSyntax

MOST_SHOWN = 20
"""Rows."""
_MOST_FINDINGS = 3
_MOST_NAMED = 3


class DescribedSession(Protocol):
    """A session of any engine."""

    @property
    def name(self) -> str:
        """What an engineer knows it by."""

    @property
    def command(self) -> str:
        """Which kind of statement it executes, like ``ALTER TABLE``."""

    @property
    def doing(self) -> str:
        """Its state, since when, and its statement."""

    @property
    def query(self) -> str | None:
        """Its statement."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitTree:
    """The sessions that wait, and what is known of them."""

    waits: LockWaits
    sessions: Mapping[int, DescribedSession]
    literals: LiteralSyntax
    """How their statements write constants."""
    name_without_session: Callable[[str], str]
    """Of a prepared transaction: its name in a sentence."""
    described: frozenset[int] = frozenset()
    """The sessions that another finding describes: one of a head only names them."""

    def describe(self, key: Session) -> str:
        """Return what an engineer knows a session or a prepared transaction by."""
        if isinstance(key, str):
            return self.name_without_session(key)
        return self.sessions[key].name if key in self.sessions else f"session {key}"

    def command_of(self, session: int) -> str:
        """Return which kind of statement a session executes."""
        return self.sessions[session].command if session in self.sessions else "statement"

    def count(self) -> str:
        """Return how many wait, as a sentence."""
        count = format_plural(len(self.waits.by_session), "session waits", "sessions wait")
        more = (
            f" The first {MOST_SHOWN} rows are shown." if len(self.waits.by_session) + len(self.waits.heads) > MOST_SHOWN else ""
        )
        least = "" if self.waits.is_complete else "At least "
        return f"{least}{count} for a lock, each shown below the one for which it waits.{more}"

    def list_rows(self) -> Iterator[tuple[str, str, str, str, str]]:
        """Go through the rows: session, how many it blocks, how long it waits, for what, its statement. Last those for whom nobody is known."""
        for head in (*self.waits.heads, *(min(cycle) for cycle in self.waits.cycles)):
            doing = self.sessions[head].doing if isinstance(head, int) and head in self.sessions else ""
            yield self.describe(head), str(len(self.waits.find_blocked(head))), "", "", doing
            for depth, wait in self.waits.walk(head):
                yield self._row(wait, f"{'   ' * (depth - 1)}└─ ")
        for wait in self.waits.by_session.values():
            if not wait.blockers:
                yield self._row(wait, "")
                for depth, below in self.waits.walk(wait.session):
                    yield self._row(below, f"{'   ' * (depth - 1)}└─ ")

    def judge_heads(
        self, subject: str, end: Callable[[Session], Sequence[Remedy]], cancel: Callable[[int], Remedy], because: str = ""
    ) -> list[Finding]:
        """Return a finding for each head behind which somebody has waited for long.

        ``end``: the ways to end a head, the first of which is the usual one. ``cancel``: what ends the statement of one that waits.
        """
        heads = [head for head in self.waits.heads[:_MOST_FINDINGS] if longest_s(self.waits.find_blocked(head)) >= BRIEF_S]
        return [self._judge(subject, head, end(head), cancel, because) for head in heads]

    def end_with_middle(self, head: Session, remedy: Remedy) -> Remedy:
        """Return what ends a head, with what then becomes of those behind a session in the middle."""
        middle = self.find_middle(head)
        if middle is None or not remedy.statement:
            return remedy
        then = f"the {self.command_of(middle)} of session {middle} then continues, and those behind it wait until that has ended"
        return replace(remedy, caution=f"{remedy.caution}; {then}")

    def find_middle(self, head: Session) -> int | None:
        """Return the session that waits itself, and whose end would let the most others continue; none if that lets nobody continue."""
        blocked = self.waits.find_blocked(head)
        ahead = {one for wait in blocked if not wait.holders for one in wait.ahead if isinstance(one, int)}
        freed = {one: len(self.waits.find_freed(one)) for one in sorted(ahead)}
        most = max(freed, key=lambda one: freed[one], default=None)
        return most if most is not None and freed[most] else None

    def find_advisory_key(self, head: Session) -> str:
        """Return the key of an advisory lock that a head holds and others wait for; empty if there is none."""
        return next((one.advisory for one in self.waits.find_blocked(head) if one.advisory and head in one.holders), "")

    def _row(self, wait: LockWait, branch: str) -> tuple[str, str, str, str, str]:
        behind = len(self.waits.find_blocked(wait.session))
        session = self.sessions.get(wait.session)
        text = shorten_text(session.query, self.literals, 60) if session else ""
        return branch + self.describe(wait.session), str(behind) if behind else "", format_age(wait.waits_s), wait.lock, text

    def _judge(
        self, subject: str, head: Session, ways: Sequence[Remedy], cancel: Callable[[int], Remedy], because: str
    ) -> Finding:
        blocked = self.waits.find_blocked(head)
        is_described = head in self.described
        name = f"session {head}" if is_described else self.describe(head)
        session = self.sessions.get(head) if isinstance(head, int) and not is_described else None
        doing = f" It is {session.doing}." if session and session.doing else ""
        key = self.find_advisory_key(head)
        held = f" It holds advisory lock {key}." if key else ""
        middle = self.find_middle(head)
        remedy = self.end_with_middle(head, ways[0])
        in_middle = () if middle is None else (self._cancel_middle(middle, cancel(middle)),)
        return Finding(
            severity=judge_wait(blocked),
            subject=subject,
            about=str(head),
            sentence=f"{capitalize_first(name)} blocks {self._count_blocked(head)}, the longest for {format_age(longest_s(blocked))}."
            f"{held}{doing}{self._name_other_heads(head)}",
            because=because,
            statement=remedy.statement,
            where=remedy.where,
            caution=remedy.caution,
            other_ways=(*in_middle, *ways[1:]),
        )

    def _count_blocked(self, head: Session) -> str:
        """Return how many are blocked, like ``7 sessions: 1 directly (the ALTER TABLE of session 12), 6 behind it``."""
        blocked = self.waits.find_blocked(head)
        direct = [one for one in blocked if head in one.blockers]
        count = ("" if self.waits.is_complete else "at least ") + format_plural(len(blocked), "session")
        if len(direct) == len(blocked):
            return count
        first = sorted(direct, key=lambda wait: -len(self.waits.find_blocked(wait.session)))
        names = [f"the {self.command_of(one.session)} of session {one.session}" for one in first[:_MOST_NAMED]]
        more = ", ..." if len(direct) > _MOST_NAMED else ""
        pronoun = "it" if len(direct) == 1 else "them"
        return f"{count}: {len(direct)} directly ({', '.join(names)}{more}), {len(blocked) - len(direct)} behind {pronoun}"

    def _cancel_middle(self, session: int, remedy: Remedy) -> Remedy:
        freed = self.waits.find_freed(session)
        count = "the session behind it continues" if len(freed) == 1 else f"the {len(freed)} sessions behind it continue"
        return replace(remedy, caution=f"{remedy.caution}, which must be repeated; {count}")

    def _name_other_heads(self, head: Session) -> str:
        """Return which of the blocked would go on waiting for somebody else."""
        if len(self.waits.heads) == 1:
            return ""
        others = {
            wait.session: [one for one in self.waits.find_heads(wait.session) if one != head]
            for wait in self.waits.find_blocked(head)
        }
        also = {session: heads for session, heads in others.items() if heads}
        if not also:
            return ""
        keys = list(dict.fromkeys(one for heads in also.values() for one in heads))
        named = [f"session {one}" if isinstance(one, int) else self.describe(one) for one in keys[:_MOST_NAMED]]
        more = ", ..." if len(keys) > _MOST_NAMED else ""
        return f" {len(also)} of them {'waits' if len(also) == 1 else 'wait'} behind {', '.join(named)}{more} as well."


def longest_s(waits: Iterable[LockWait]) -> float:
    """Return the longest of some waits."""
    return max((one.waits_s or 0.0 for one in waits), default=0.0)


def judge_wait(waits: Sequence[LockWait]) -> Severity:
    """Return how urgent the longest of some waits is."""
    return Severity.CRITICAL if longest_s(waits) >= LONG_WAIT_S else Severity.WARNING
