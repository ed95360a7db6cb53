"""A promise of a queue's operations: its name, which queues give it, and how it is tried on an empty database."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from stallbench.queues import Claim, NewJob, Queue
from stallbench.queues.queue import OptionRole
from stallbench.waiting import wait_until

PATIENCE_S = 60.0
"""Time limit for operations that should be immediate; a busy machine can stall for seconds."""
OpenQueue = Callable[..., Queue[Any]]
"""Opens the queue on a new connection at each call, with the options that it is given. It is installed on an empty database."""


class BrokenPromiseError(Exception):
    """A queue did not do what it promises; the message says what happened, and what was expected."""


@dataclass(frozen=True, slots=True, kw_only=True)
class QueuePromise:
    """One promise."""

    name: str
    """What holds, as a sentence without a full stop."""
    why_not: Callable[[type[Queue[Any]]], str | None]
    """Returns why a queue does not give the promise; none if it does."""
    needs_claim: bool
    """Whether it is tried with `Queue.claim`, which a library does in a worker of its own."""
    check: Callable[[OpenQueue], None]
    """Raises `BrokenPromiseError`."""

    def find_obstacle(self, queue: type[Queue[Any]]) -> str | None:
        """Return why the promise cannot be tried on a queue; none if it can."""
        if self.needs_claim and queue.worker_command() is not None:
            return "the library claims in its own worker, so the bench cannot try a single claim"
        return self.why_not(queue)


def _given_by_all(queue: type[Queue[Any]]) -> None:
    """Return that every queue gives it."""


class PromiseList(list[QueuePromise]):
    """The promises, in order."""

    def add(
        self, name: str, *, why_not: Callable[[type[Queue[Any]]], str | None] = _given_by_all, needs_claim: bool = True
    ) -> Callable[[Callable[[OpenQueue], None]], Callable[[OpenQueue], None]]:
        """Return a decorator that adds a promise."""

        def keep(check: Callable[[OpenQueue], None]) -> Callable[[OpenQueue], None]:
            self.append(QueuePromise(name=name, why_not=why_not, needs_claim=needs_claim, check=check))
            return check

        return keep


def require(holds: bool, otherwise: str) -> None:
    """Raise `BrokenPromiseError` unless something ``holds``."""
    if not holds:
        raise BrokenPromiseError(otherwise)


def require_equal(found: object, expected: object, what: str) -> None:
    """Raise `BrokenPromiseError` unless what was found is what was expected. ``what``: the subject of the sentence."""
    require(found == expected, f"{what}: found {found!r}; expected {expected!r}")


def claim_one(queue: Queue[Any]) -> Claim:
    """Claim, and return the only job of the claim."""
    claims = queue.claim()
    require_equal(len(claims), 1, "the number of jobs of a claim while one is ready")
    return claims[0]


def claim_patiently(queue: Queue[Any]) -> Claim:
    """Claim as soon as there is something: a server needs a moment to notice that a session is gone."""
    claims = wait_until(queue.claim, within_s=PATIENCE_S, every_s=0.02)
    if not claims:
        raise BrokenPromiseError(f"the job could not be claimed within {PATIENCE_S:.0f} s")
    return claims[0]


def expiring_after_1_s(open_one: OpenQueue) -> Queue[Any]:
    """Open the queue with claims of one second."""
    option = type(open_one()).options_type.find_option(OptionRole.EXPIRY)
    assert option is not None, "only queues whose claims expire give the promise"
    return open_one(**{option: 1})


def take_turns(queue: Queue[Any]) -> None:
    """Call the queue's scheduler after each enqueue; in a run it is a process of its own."""

    def and_schedule(add: Callable[[Sequence[NewJob]], Sequence[int]]) -> Callable[[Sequence[NewJob]], Sequence[int]]:
        def add_and_schedule(jobs: Sequence[NewJob]) -> Sequence[int]:
            ids = add(jobs)
            while queue.schedule() == 0:
                pass
            return ids

        return add_and_schedule

    queue.enqueue = and_schedule(queue.enqueue)  # type: ignore[method-assign, assignment]
    queue.load = and_schedule(queue.load)  # type: ignore[method-assign, assignment]
