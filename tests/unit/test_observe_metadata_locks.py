"""For whom sessions of MariaDB and MySQL wait for a metadata lock, and what ends that."""

from __future__ import annotations

import pytest

from stallbench.observe.innodb.lock_waits import find_lock_name
from stallbench.observe.innodb.metadata_locks import Blockers, OtherLock, find_blockers, read_metadata_blockers
from stallbench.observe.innodb.sessions import InnoDBSessionDetails, end_session
from stallbench.observe.lock_waits import LockWait, LockWaits

ALTER, READER, WRITER = 2, 3, 9
CHANGE = "ALTER TABLE work ADD COLUMN n int, ALGORITHM=COPY"


def granted(waiter: int, awaited: str, kind: str, pid: int, statement: str = "") -> OtherLock:
    return OtherLock(waiter, awaited, kind, is_pending=False, pid=pid, statement=statement)


def make_graph(found: dict[int, Blockers]) -> LockWaits:
    return LockWaits(
        LockWait(session=pid, waits_s=5.0, lock="a lock", holders=one.holders, ahead=one.ahead) for pid, one in found.items()
    )


def test_a_writer_behind_a_change_that_copies_the_table_waits_for_the_change_only() -> None:
    locks = [
        granted(WRITER, "SHARED_WRITE", "SHARED_NO_WRITE", ALTER, CHANGE),
        granted(WRITER, "SHARED_WRITE", "SHARED_READ", READER),
    ]
    assert find_blockers(locks) == {WRITER: Blockers((ALTER,), ())}


def test_a_change_that_copies_the_table_is_the_holder_although_its_lock_is_shown_as_before_the_upgrade() -> None:
    locks = [
        granted(WRITER, "SHARED_WRITE", "SHARED_UPGRADABLE", ALTER, CHANGE),
        granted(WRITER, "SHARED_WRITE", "SHARED_READ", READER),
    ]
    assert find_blockers(locks) == {WRITER: Blockers((ALTER,), ())}


def test_a_change_waits_for_every_lock_and_what_is_behind_it_continues_without_it() -> None:
    found = find_blockers(
        [
            granted(ALTER, "EXCLUSIVE", "SHARED_READ", READER),
            granted(WRITER, "SHARED_WRITE", "SHARED_NO_WRITE", ALTER, CHANGE),
            granted(WRITER, "SHARED_WRITE", "SHARED_READ", READER),
        ]
    )
    assert found == {ALTER: Blockers((READER,), ()), WRITER: Blockers((), (ALTER,))}
    waits = make_graph(found)
    assert waits.heads == [READER]
    assert [one.session for one in waits.find_freed(ALTER)] == [WRITER]


def test_a_reader_that_no_granted_lock_excludes_waits_behind_a_change_for_whoever_has_used_the_table() -> None:
    found = find_blockers(
        [
            granted(ALTER, "EXCLUSIVE", "SHARED_WRITE", READER),
            granted(WRITER, "SHARED_READ", "SHARED_UPGRADABLE", ALTER, CHANGE),
            granted(WRITER, "SHARED_READ", "SHARED_WRITE", READER),
        ]
    )
    assert make_graph(found).find_heads(WRITER) == [READER]


def test_a_change_without_a_lock_of_its_own_is_ahead_of_those_that_want_less() -> None:
    """TRUNCATE asks for its lock at once."""
    found = find_blockers(
        [
            granted(ALTER, "EXCLUSIVE", "SHARED_READ", READER),
            OtherLock(WRITER, "SHARED_WRITE", "EXCLUSIVE", is_pending=True, pid=ALTER, statement="TRUNCATE work"),
            granted(WRITER, "SHARED_WRITE", "SHARED_READ", READER),
            OtherLock(ALTER, "EXCLUSIVE", "SHARED_WRITE", is_pending=True, pid=WRITER, statement="INSERT INTO work VALUES (1)"),
        ]
    )
    assert found == {ALTER: Blockers((READER,), ()), WRITER: Blockers((), (ALTER,))}


def test_a_holder_that_waits_for_a_row_is_not_the_one_to_end_but_who_blocks_it() -> None:
    """Workers whose claims wait for a row have used the table, too, so a change of the table waits for each of them."""
    blocker, first, second = 5, 6, 7
    found = find_blockers([granted(ALTER, "EXCLUSIVE", "SHARED_WRITE", holder) for holder in (first, second, blocker, READER)])
    waits = make_graph({**found, first: Blockers((blocker,)), second: Blockers((blocker,))})
    assert waits.find_heads(ALTER) == [blocker, READER]


def test_only_sessions_of_clients_are_read() -> None:
    """A background thread has no processlist_id; the query leaves it out, on either side."""

    class Server:
        def fetch(self, query: str) -> list[tuple[object, ...]]:
            of_client = (9, "EXCLUSIVE", "SHARED_READ", 0, 3, "", "")
            leaves_out = all(f"{one}.processlist_id IS NOT NULL" in query for one in ("waiter", "holder"))
            return [of_client] if leaves_out else [of_client, (None, *of_client[1:])]

    assert read_metadata_blockers(Server()) == {9: Blockers((READER,), ())}


def details(query: str = "", *, has_transaction: bool | None = True, is_single_select: bool = False) -> InnoDBSessionDetails:
    return InnoDBSessionDetails(7, "app", "", "", "query" if query else "sleep", 5.0, query, has_transaction, 0, is_single_select)


def test_what_ends_a_session_is_no_more_than_is_needed_and_says_what_is_lost() -> None:
    for session, statement, words in (
        (details(CHANGE, has_transaction=True), "KILL QUERY 7;", "whose work is lost"),
        (details("SELECT 1", is_single_select=True), "KILL QUERY 7;", "of which only the result is lost"),
        (details("SELECT 1", has_transaction=False), "KILL QUERY 7;", "of which only the result is lost"),
        (details("UPDATE work SET n = 1"), "KILL 7;", "rolls its transaction back and closes its connection"),
        (details(), "KILL 7;", "rolls its transaction back and closes its connection"),
        (details(has_transaction=False), "KILL 7;", "it has no transaction"),
        (details(has_transaction=None), "KILL 7;", "rolls its transaction back if it has one"),
    ):
        remedy = end_session(7, session)
        assert remedy.statement == statement
        assert words in remedy.caution


@pytest.mark.parametrize(
    ("statement", "name"),
    [
        ("SELECT get_lock('nightly', 300)", "nightly"),
        ("/* scheduler */ do GET_LOCK ( 'it''s' , -1 ) ; -- until it is free", "it's"),
        ("SELECT /* get_lock('app.scheduler' */ get_lock('mine', 100)", "mine"),
        ("SELECT get_lock(/* 'app.scheduler', */ 'mine', 100)", "mine"),
        ("SELECT get_lock('mine', 100), 'get_lock(\\'app.scheduler\\', 1)'", None),
        ("SELECT 'get_lock(', get_lock('mine', 100)", None),
        ("SELECT get_lock('app.scheduler', 0) OR get_lock('mine', 100)", None),
        ("SELECT /*! get_lock('mine', 100), */ get_lock('app.scheduler', 0)", None),
        ("SELECT get_lock('app.scheduler', 0) -- \n + get_lock('mine', 100)", None),
        ("SELECT get_lock('app.' 'scheduler', 100)", None),
        ("SELECT get_lock(concat('app.', 'scheduler'), 100)", None),
        ("SELECT get_lock(N'app.scheduler', 100)", None),
        ("SELECT get_lock(100, 'app.scheduler')", None),
        ("SELECT get_lock('app.scheduler", None),
        ("", None),
    ],
)
def test_only_a_statement_that_is_nothing_but_a_call_of_get_lock_names_a_lock(statement: str, name: str | None) -> None:
    assert find_lock_name(statement) == name


def test_the_name_of_a_lock_of_get_lock_is_that_of_the_record() -> None:
    lock = OtherLock(WRITER, "SHARED_NO_WRITE", "SHARED_NO_WRITE", is_pending=False, pid=READER, user_lock="nightly")
    assert find_blockers([lock])[WRITER].user_lock == "nightly"
