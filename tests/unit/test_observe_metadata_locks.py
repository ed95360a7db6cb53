"""Who holds the metadata locks for which sessions of MariaDB and MySQL wait, and what `stallbench observe` says of it."""

from __future__ import annotations

from stallbench.observe.innodb.metadata_locks import (
    GrantedLock,
    MetadataHolder,
    MetadataWait,
    find_holders,
    judge_metadata_waits,
    read_metadata_holders,
)
from stallbench.observe.subject import Severity

ALTER = MetadataHolder(2, "deploy", "query", "ALTER TABLE work ADD COLUMN n int, ALGORITHM=COPY")
READER = MetadataHolder(3, "report", "sleep")
WRITER = 9


def wait(pid: int, waits_s: float, statement: str) -> MetadataWait:
    return MetadataWait(pid, "app", waits_s, "Waiting for table metadata lock", statement)


def test_a_writer_behind_a_change_that_copies_the_table_waits_for_the_change_only() -> None:
    granted = [
        GrantedLock(WRITER, "SHARED_WRITE", "SHARED_NO_WRITE", ALTER),
        GrantedLock(WRITER, "SHARED_WRITE", "SHARED_READ", READER),
    ]
    assert find_holders(granted) == {WRITER: [ALTER]}


def test_a_change_that_copies_the_table_is_the_holder_although_its_lock_is_shown_as_before_the_upgrade() -> None:
    granted = [
        GrantedLock(WRITER, "SHARED_WRITE", "SHARED_UPGRADABLE", ALTER),
        GrantedLock(WRITER, "SHARED_WRITE", "SHARED_READ", READER),
    ]
    assert find_holders(granted) == {WRITER: [ALTER]}


def test_a_change_waits_for_every_lock_and_what_is_behind_it_for_the_same_sessions() -> None:
    granted = [
        GrantedLock(ALTER.pid, "EXCLUSIVE", "SHARED_READ", READER),
        GrantedLock(WRITER, "SHARED_WRITE", "SHARED_NO_WRITE", ALTER),
        GrantedLock(WRITER, "SHARED_WRITE", "SHARED_READ", READER),
    ]
    assert find_holders(granted) == {ALTER.pid: [READER], WRITER: [READER]}


def test_a_reader_that_no_granted_lock_excludes_waits_behind_a_change_for_whoever_has_used_the_table() -> None:
    granted = [
        GrantedLock(ALTER.pid, "EXCLUSIVE", "SHARED_WRITE", READER),
        GrantedLock(WRITER, "SHARED_READ", "SHARED_UPGRADABLE", ALTER),
        GrantedLock(WRITER, "SHARED_READ", "SHARED_WRITE", READER),
    ]
    assert find_holders(granted)[WRITER] == [READER]


def test_a_holder_that_waits_for_a_row_is_not_the_one_to_end_but_who_blocks_it() -> None:
    """Workers whose claims wait for a row have used the table, too, so a change of the table waits for each of them."""
    blocker, first, second = (MetadataHolder(pid, "app", command) for pid, command in ((5, "sleep"), (6, "query"), (7, "query")))
    granted = [GrantedLock(ALTER.pid, "EXCLUSIVE", "SHARED_WRITE", holder) for holder in (first, second, blocker, READER)]
    row_waits = {first.pid: [MetadataHolder(blocker.pid, "app", "")], second.pid: [first]}
    assert find_holders(granted, row_waits) == {ALTER.pid: [blocker, READER]}


def test_only_sessions_of_clients_are_read() -> None:
    """A background thread has no processlist_id; the query leaves it out, on either side."""

    class Server:
        def fetch(self, query: str) -> list[tuple[object, ...]]:
            of_client = (9, "EXCLUSIVE", "SHARED_READ", 3, "report", "sleep", "")
            leaves_out = all(f"{one}.processlist_id IS NOT NULL" in query for one in ("waiter", "holder"))
            return [of_client] if leaves_out else [of_client, (None, *of_client[1:])]

    assert read_metadata_holders(Server()) == {9: [READER]}


def test_each_holder_is_judged_by_the_waits_that_it_blocks() -> None:
    waits = [wait(9, 120.0, "UPDATE work"), wait(8, 5.0, "UPDATE other")]
    first, second = judge_metadata_waits(waits, {9: [ALTER], 8: [READER]}, "blocking")
    assert "the longest for 2 min (UPDATE work)" in first.sentence
    assert first.severity == Severity.CRITICAL
    assert "1 session waits, the longest for 5.0 s (UPDATE other)" in second.sentence
    assert second.severity == Severity.WARNING


def test_who_would_kill_a_change_is_told_that_its_work_is_lost() -> None:
    of_change, of_reader = judge_metadata_waits([wait(9, 5.0, "UPDATE work")], {9: [ALTER, READER]}, "blocking")
    assert "whose work is lost" in of_change.caution
    assert of_reader.caution == "rolls its transaction back and closes its connection"


def test_without_a_known_holder_it_says_how_many_wait() -> None:
    (finding,) = judge_metadata_waits([wait(9, 5.0, "UPDATE work"), wait(8, 2.0, "UPDATE work")], {}, "blocking")
    assert finding.sentence.startswith("2 sessions wait for a metadata lock, the longest for 5.0 s (session 9: UPDATE work).")
    assert finding.statement == ""
