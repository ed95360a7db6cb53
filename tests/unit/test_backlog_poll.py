"""When a queue counts as drained and its workers as caught up, with a queue that says what the test wants; time is the test's, too."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, cast

import psycopg
import pytest

from stallbench.engines import driver_of
from stallbench.queues import Queue
from stallbench.queues.queue import Backlog
from stallbench.run.backlog import CAUGHT_UP_FOR_S, FALLEN_BEHIND_S, BacklogPoll

driver_of("postgres")  # a poll survives the errors of the engines in use


class ScriptedQueue:
    """What a poll calls on a queue; ``oldest_job_s`` is its answer, and ``opened`` counts its connections."""

    def __init__(self) -> None:
        self.oldest_job_s: float | None = None
        self.is_gone = False
        self.now_s = 0.0
        self.opened = 0

    def backlog(self) -> Backlog:
        if self.is_gone:
            raise psycopg.OperationalError("the server went away")
        return Backlog(depth=0 if self.oldest_job_s is None else 1, oldest_job_s=self.oldest_job_s)

    def is_drained(self) -> bool:
        return self.backlog().depth == 0

    @contextmanager
    def open(self) -> Iterator[Queue[Any]]:
        self.opened += 1
        yield cast("Queue[Any]", self)


@pytest.fixture
def queue() -> ScriptedQueue:
    return ScriptedQueue()


@pytest.fixture
def look(queue: ScriptedQueue) -> Iterator[BacklogPoll]:
    with BacklogPoll(queue.open, now_s=lambda: queue.now_s) as opened:
        yield opened


def look_for(seconds: float, look: BacklogPoll, queue: ScriptedQueue) -> bool:
    """Look every half second for so long; returns what the last look saw."""
    until_s = queue.now_s + seconds
    seen = look.is_caught_up()
    while queue.now_s < until_s:
        queue.now_s += 0.5
        seen = look.is_caught_up()
    return seen


def test_workers_have_caught_up_when_no_job_has_waited_for_a_second_in_five(look: BacklogPoll, queue: ScriptedQueue) -> None:
    queue.oldest_job_s = 0.9
    assert not look_for(CAUGHT_UP_FOR_S - 0.5, look, queue)
    assert look_for(0.5, look, queue)


def test_a_job_that_waited_longer_begins_the_five_seconds_anew(look: BacklogPoll, queue: ScriptedQueue) -> None:
    assert not look_for(CAUGHT_UP_FOR_S - 0.5, look, queue)
    queue.oldest_job_s = 1.0
    assert not look_for(30, look, queue)
    queue.oldest_job_s = None
    assert not look_for(CAUGHT_UP_FOR_S - 0.5, look, queue)
    assert look_for(1, look, queue)


def test_a_queue_that_does_not_answer_is_neither_drained_nor_caught_up_and_is_opened_again(
    look: BacklogPoll, queue: ScriptedQueue
) -> None:
    assert look_for(CAUGHT_UP_FOR_S, look, queue)
    queue.is_gone = True
    assert not look.is_caught_up()
    assert not look.is_drained()
    opened = queue.opened
    queue.is_gone = False
    assert look.is_drained()
    assert queue.opened == opened + 1
    assert not look.is_caught_up(), "the time without a connection is unknown"


def test_the_workers_have_fallen_behind_when_a_ready_job_has_waited_for_long(look: BacklogPoll, queue: ScriptedQueue) -> None:
    assert not look.is_fallen_behind()
    queue.oldest_job_s = FALLEN_BEHIND_S - 0.1
    assert not look.is_fallen_behind()
    queue.oldest_job_s = FALLEN_BEHIND_S
    assert look.is_fallen_behind()
    queue.is_gone = True
    assert not look.is_fallen_behind(), "a queue that cannot be reached is no backlog"
