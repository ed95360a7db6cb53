"""What the graph of sessions that wait for locks says of who is to be ended, without a server."""

from __future__ import annotations

from stallbench.engines.innodb.literals import LITERALS
from stallbench.observe.diagnostic import Remedy, Severity
from stallbench.observe.innodb.sessions import InnoDBSessionDetails
from stallbench.observe.lock_waits import LockWait, LockWaits, Session
from stallbench.observe.wait_tree import WaitTree

READER, ALTER = 1, 2
WORKERS = (3, 4, 5)


def wait(session: int, holders: tuple[Session, ...] = (), ahead: tuple[Session, ...] = ()) -> LockWait:
    return LockWait(session=session, waits_s=10.0 - session, lock="a lock", holders=holders, ahead=ahead)


def sessions(waits: list[LockWait]) -> list[int]:
    return [one.session for one in waits]


CHAIN = LockWaits([wait(ALTER, holders=(READER,)), *(wait(worker, ahead=(ALTER,)) for worker in WORKERS)])


def test_the_head_blocks_those_behind_the_one_that_waits_for_it_too() -> None:
    assert CHAIN.heads == [READER]
    assert sessions(CHAIN.find_blocked(READER)) == [ALTER, *WORKERS]
    assert [(one.depth, one.wait.session) for one in CHAIN.walk(READER)] == [(1, ALTER), (2, 3), (2, 4), (2, 5)]
    assert CHAIN.find_heads(WORKERS[0]) == [READER]


def test_those_that_only_wait_after_a_session_continue_without_it() -> None:
    assert sessions(CHAIN.find_freed(ALTER)) == list(WORKERS)
    queued = LockWaits([wait(2, holders=(1,)), wait(3, holders=(1,), ahead=(2,)), wait(4, holders=(2,))])
    assert not queued.find_freed(2), "one waits for the head as well, the other for what session 2 holds"


def test_one_that_waits_for_two_is_behind_both() -> None:
    waits = LockWaits([wait(3, holders=(1, "prepared"))])
    assert waits.heads == [1, "prepared"]
    assert waits.find_heads(3) == [1, "prepared"]


def test_a_deadlock_has_no_head_and_does_not_end_the_search() -> None:
    waits = LockWaits([wait(1, holders=(2,)), wait(2, holders=(1,)), wait(3, holders=(2,))])
    assert waits.heads == []
    assert waits.cycles == [(1, 2)]
    assert waits.find_heads(3) == []
    assert sessions(waits.find_blocked(1)) == [1, 2, 3]
    assert [one.wait.session for one in waits.walk(1)] == [2, 3]


def test_sessions_in_the_order_of_a_queue_are_no_deadlock() -> None:
    assert CHAIN.cycles == []


def test_each_head_is_judged_by_the_waits_that_it_blocks() -> None:
    waits = [
        LockWait(session=3, waits_s=120.0, lock="a row", holders=(1,)),
        LockWait(session=4, waits_s=5.0, lock="a row", holders=(2,)),
    ]
    tree = WaitTree(waits=LockWaits(waits), sessions={}, literals=LITERALS, name_without_session=str)
    first, second = tree.judge_heads("blocking", lambda head: [Remedy(statement=f"KILL {head};")], lambda session: Remedy())
    assert (first.severity, second.severity) == (Severity.CRITICAL, Severity.WARNING)
    assert first.sentence == "Session 1 blocks 1 session, the longest for 2 min."
    assert second.sentence == "Session 2 blocks 1 session, the longest for 5.0 s."
    assert (first.statement, second.statement) == ("KILL 1;", "KILL 2;")


def test_of_more_sessions_than_were_read_the_count_is_a_lower_bound() -> None:
    tree = WaitTree(
        waits=LockWaits([wait(2, holders=(1,))], is_complete=False), sessions={}, literals=LITERALS, name_without_session=str
    )
    (finding,) = tree.judge_heads("blocking", lambda head: [Remedy()], lambda session: Remedy())
    assert "blocks at least 1 session, " in finding.sentence
    assert tree.count().startswith("At least 1 session waits for a lock")


def test_no_string_of_a_waiting_statement_is_shown_however_the_engine_writes_it() -> None:
    details = InnoDBSessionDetails(2, "app", "", "", "query", 1.0, 'UPDATE jobs SET mail = "alice@example.com"', True, 0, False)
    tree = WaitTree(waits=LockWaits([wait(2, holders=(1,))]), sessions={2: details}, literals=LITERALS, name_without_session=str)
    assert [row[-1] for row in tree.list_rows()] == ["", "UPDATE jobs SET mail = ?"]
