"""Who waits for whom: the graph of sessions that wait for locks, on any engine, and what it says of who is to be ended.

A session waits for those that hold the lock, and for those that wait for it before it. An ALTER TABLE that waits for one reader makes everything
else on the table wait, although it holds nothing that they want: ending it lets them continue, as ending the reader does.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

Session = int | str
"""The number of a session; of a prepared transaction, which has none, its name, empty if that is not known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LockWait:
    """A session that waits for a lock."""

    session: int
    waits_s: float | None
    """None in the first moment."""
    lock: str
    """What it waits for, in words."""
    kind: str = ""
    """Which kind of lock that is, in words of the engine's own; empty if they are not distinguished. No name can be part of it."""
    statement: str = ""
    """With which it waits, if the server says it here."""
    holders: tuple[Session, ...] = ()
    """Who holds the lock."""
    ahead: tuple[Session, ...] = ()
    """Who holds nothing that it wants, but waits before it for a lock that excludes its own."""
    advisory: str = ""
    """Of an advisory lock: its key, as the application writes it."""
    suspected: int = 0
    """Who holds the lock that its statement names, which does not prove that it waits for that one; 0 if nobody."""

    @property
    def blockers(self) -> tuple[Session, ...]:
        """Everybody for whom it waits."""
        return self.holders + self.ahead


class Branch(NamedTuple):
    """A session in the tree of those that wait behind one."""

    depth: int
    """1: it waits for the head of the tree."""
    wait: LockWait


class LockWaits:
    """The sessions that wait, and those for whom they wait."""

    def __init__(self, waits: Iterable[LockWait] = (), *, is_complete: bool = True) -> None:
        """``is_complete``: whether these are all that wait."""
        self.by_session: Mapping[int, LockWait] = {one.session: one for one in waits}
        self.is_complete = is_complete

    def __bool__(self) -> bool:
        return bool(self.by_session)

    @cached_property
    def _behind(self) -> Mapping[Session, Sequence[LockWait]]:
        """By session: who waits for it directly."""
        behind: dict[Session, list[LockWait]] = {}
        for wait in self.by_session.values():
            for blocker in dict.fromkeys(wait.blockers):
                behind.setdefault(blocker, []).append(wait)
        return behind

    @cached_property
    def heads(self) -> Sequence[Session]:
        """Those that others wait for and that do not wait themselves, the one behind which most wait first."""
        heads = [one for one in self._behind if one not in self.by_session]
        return sorted(heads, key=lambda one: (-len(self.find_blocked(one)), str(one)))

    @cached_property
    def cycles(self) -> Sequence[tuple[int, ...]]:
        """Groups of sessions each of which waits for another one of the group, and for no head: deadlocks that the server has not broken yet."""
        behind_heads = {wait.session for head in self.heads for wait in self.find_blocked(head)}
        after = {one: {wait.session for wait in self.find_blocked(one)} for one in self.by_session if one not in behind_heads}
        groups = (tuple(sorted(each for each in after[one] if one in after[each])) for one in after if one in after[one])
        return list(dict.fromkeys(groups))

    def find_blocked(self, session: Session) -> list[LockWait]:
        """Return all that wait for it, directly or behind others, the longest first."""
        found: dict[int, LockWait] = {}
        ahead = list(self._behind.get(session, ()))
        while ahead:
            wait = ahead.pop()
            if wait.session not in found:
                found[wait.session] = wait
                ahead += self._behind.get(wait.session, ())
        return sorted(found.values(), key=lambda wait: -(wait.waits_s or 0.0))

    def find_heads(self, session: Session) -> list[Session]:
        """Return at whose end it would continue: the heads of the chains in which it waits, and of those its holders first."""
        found: dict[Session, None] = {}
        seen, ahead = {session}, [session]
        while ahead:
            wait = self.by_session.get(ahead.pop(0))  # type: ignore[arg-type]  # a name is not a number that waits
            for blocker in wait.blockers if wait else ():
                if blocker in self.by_session:
                    if blocker not in seen:
                        seen.add(blocker)
                        ahead.append(blocker)
                else:
                    found[blocker] = None
        return list(found)

    def find_freed(self, session: Session) -> list[LockWait]:
        """Return who would continue if the session gave up its own wait, and kept what it holds: those that only wait after it."""
        freed: dict[int, LockWait] = {}
        gone: set[Session] = {session}
        while True:
            new = [
                wait
                for wait in self.by_session.values()
                if wait.session not in gone and wait.ahead and not wait.holders and gone.issuperset(wait.ahead)
            ]
            if not new:
                return list(freed.values())
            freed |= {wait.session: wait for wait in new}
            gone |= {wait.session for wait in new}

    def walk(self, head: Session) -> Iterator[Branch]:
        """Go through the tree of those that wait for ``head``: each once, below the one by which it is nearest to the head."""
        below: dict[Session, list[LockWait]] = {}
        seen, ahead = {head}, [head]
        while ahead:
            session = ahead.pop(0)
            below[session] = [wait for wait in self._behind.get(session, ()) if wait.session not in seen]
            seen |= {wait.session for wait in below[session]}
            ahead += [wait.session for wait in below[session]]

        def walk_from(session: Session, depth: int) -> Iterator[Branch]:
            for wait in sorted(below[session], key=lambda wait: (-len(below[wait.session]), -(wait.waits_s or 0.0))):
                yield Branch(depth, wait)
                yield from walk_from(wait.session, depth + 1)

        return walk_from(head, 1)
