"""The server's listing of a deadlock is read as far as it goes: the transactions, their locks, and who was rolled back."""

from __future__ import annotations

import random

import pytest

from stallbench.engines.deadlocks.deadlock import Deadlock
from stallbench.engines.innodb.deadlock_report import find_deadlocks, parse_deadlock
from tests.unit.innodb_listings import LISTINGS, deadlock_of, read_listing


def describe_cycle(deadlock: Deadlock) -> list[str]:
    """Describe the cycle: ``1 waits for jobs.PRIMARY (2), held by 2``."""
    return [
        f"{wait.waiter.number} waits for {wait.lock.target} ({', '.join(wait.lock.keys)}), "
        f"held by {wait.holder.number if wait.holder else 'nobody listed'}"
        for wait in deadlock.waits()
    ]


def test_the_claim_holds_the_queue_index_itself_and_no_third_session_is_needed() -> None:
    deadlock = deadlock_of("mariadb_delete_is_victim")
    assert describe_cycle(deadlock) == [
        "1 waits for jobs.jobs_queue_index (default, 2), held by 2",
        "2 waits for jobs.PRIMARY (2), held by 1",
    ]
    delete, claim = deadlock.transactions
    assert delete.sql == "delete from `jobs` where `id` = 2"
    assert claim.sql.startswith("select * from `jobs` force index") and claim.sql.endswith("for update")
    assert [(lock.mode, lock.kind) for lock in (*delete.holds, *claim.holds)] == [("X", "rec but not gap"), ("X", "next-key")]


def test_a_transaction_is_identified_by_its_ids_and_its_owner() -> None:
    delete, claim = deadlock_of("mariadb_delete_is_victim").transactions
    assert (delete.transaction_id, delete.thread_id, delete.query_id) == ("7499", 4, 16)
    assert (delete.user, delete.host, delete.state) == ("root", "localhost", "Updating")
    assert claim.state == "Sending data"


def test_a_lock_has_table_index_page_and_entry() -> None:
    lock = deadlock_of("mariadb_delete_is_victim").transactions[0].waits_for
    assert lock is not None
    assert (lock.table, lock.index, lock.space, lock.page, lock.heap_nos) == ("bench.jobs", "jobs_queue_index", 13, 4, (3,))


@pytest.mark.parametrize(
    ("listing", "statement"),
    [
        ("mariadb_delete_is_victim", "delete"),  # the claim had locked another entry before: as heavy as the delete
        ("mariadb_claim_is_victim", "select"),
        ("mariadb_queue_reserved_at", "update"),
        ("mysql_8_claim_and_delete", "delete"),
        ("mysql_57_claim_and_delete", "select"),
    ],
)
def test_one_is_rolled_back(listing: str, statement: str) -> None:
    deadlock = deadlock_of(listing)
    assert [t.sql.split()[0] for t in deadlock.transactions if t.rolled_back] == [statement]
    assert deadlock.victim_by == "server"


def test_before_laravel_5_5_the_claim_s_own_update_meets_another_claim() -> None:
    assert describe_cycle(deadlock_of("mariadb_queue_reserved_at")) == [
        "1 waits for jobs.jobs_queue_reserved_at_index (default, NULL, 1), held by 2",
        "2 waits for jobs.PRIMARY (1), held by 1",
    ]


@pytest.mark.parametrize("listing", ["mariadb_three", "mysql_8_three"])
def test_three_transactions_wait_in_a_cycle(listing: str) -> None:
    assert describe_cycle(deadlock_of(listing)) == [
        "1 waits for accounts.PRIMARY (2), held by 2",
        "2 waits for accounts.PRIMARY (3), held by 3",
        "3 waits for accounts.PRIMARY (1), held by 1",
    ]


def test_mysql_lists_what_each_holds() -> None:
    deadlock = deadlock_of("mysql_8_claim_and_delete")
    assert describe_cycle(deadlock) == [
        "1 waits for jobs.PRIMARY (2), held by 2",
        "2 waits for jobs.jobs_queue_index (default, 2), held by 1",
    ]
    assert deadlock.transactions[0].holds[0].keys == ("default, 1", "default, 2")
    assert (deadlock.server, deadlock.when, deadlock.transactions[0].user) == ("mysql", "2022-11-25 15:58:22", "worker")


def test_mysql_before_8_does_not_list_what_the_first_holds() -> None:
    assert describe_cycle(deadlock_of("mysql_57_claim_and_delete"))[1] == (
        "2 waits for jobs.jobs_queue_index (default, 2), held by nobody listed"
    )


def test_a_statement_of_several_lines_keeps_them() -> None:
    assert deadlock_of("mysql_8_three").transactions[0].sql.splitlines()[0] == "UPDATE accounts"


def test_two_inserts_wait_for_each_other_s_gap() -> None:
    first = next(deadlock_of("mariadb_insert_intention").waits())
    assert first.held is not None
    assert (first.lock.kind, first.held.kind, first.lock.keys) == ("insert intention", "gap", ("end of index",))
    assert first.held.transaction_id == "7531"  # and not the waiter's own lock on that gap, which is listed, too


def test_a_table_can_be_waited_for() -> None:
    lock = deadlock_of("mariadb_auto_inc").transactions[0].waits_for
    assert lock is not None
    assert (lock.table, lock.index, lock.mode, lock.kind) == ("bench.jobs", "", "AUTO-INC", "table")


def test_a_reader_in_the_way_has_no_number_and_is_counted() -> None:
    deadlock = deadlock_of("mariadb_reader_in_the_way")
    assert [wait.unlisted for wait in deadlock.waits()] == [0, 1]
    assert deadlock.other_locks[0].transaction_id == "0"


def test_without_granted_locks_mariadb_s_order_identifies_the_holders() -> None:
    first = next(deadlock_of("mariadb_basic_report").waits())
    assert first.holder is not None
    assert (first.holder.number, first.held) == (2, None)


def test_a_search_that_was_given_up_lists_its_victim_alone() -> None:
    deadlock = deadlock_of("mysql_57_too_deep")
    assert deadlock.too_deep
    assert deadlock.victim is deadlock.transactions[0]


def test_a_number_that_the_weights_contradict_is_not_believed() -> None:
    """MariaDB's number was off by one for years (MDEV-37977); of what it prints the lightest is the one rolled back."""
    listing = read_listing("mariadb_claim_is_victim").replace("BACK TRANSACTION (2)", "BACK TRANSACTION (1)")
    deadlock = parse_deadlock(listing)
    assert deadlock is not None
    assert deadlock.victim is not None
    assert (deadlock.victim.number, deadlock.victim_by, deadlock.victim_said) == (2, "weight", 1)


def test_a_victim_of_equal_weights_that_is_not_named_stays_unknown() -> None:
    listing = read_listing("mariadb_two_rows").replace("BACK TRANSACTION (1)", "BACK TRANSACTION (0)")  # MDEV-29187
    deadlock = parse_deadlock(listing)
    assert deadlock is not None
    assert deadlock.victim is None
    assert deadlock.victim_by == ""


def test_an_error_log_has_them_all() -> None:
    deadlocks = list(find_deadlocks(read_listing("mariadb_error_log")))
    assert [d.when for d in deadlocks] == ["2026-11-21 1:58:53"] * 2
    assert [d.victim.sql[:6] for d in deadlocks if d.victim] == ["select", "select"]
    assert all("held by nobody" not in step for d in deadlocks for step in describe_cycle(d))


def test_mysql_s_error_log_names_itself_on_every_heading() -> None:
    stamp = "2026-06-29T08:31:41.894402Z 0 [Note] [MY-012469] [InnoDB]  "
    listing = read_listing("mysql_8_claim_and_delete").partition("\n*** (1) TRANSACTION")
    text = (listing[1] + listing[2]).replace("\n*** ", f"\n{stamp}*** ")
    log = f"{stamp}Transactions deadlock detected, dumping detailed information.{text}"
    (deadlock,) = find_deadlocks(log)
    assert deadlock.when == "2026-06-29 08:31:41"
    assert describe_cycle(deadlock) == describe_cycle(deadlock_of("mysql_8_claim_and_delete"))


def test_the_text_keeps_the_first_entries_of_a_lock_and_all_are_counted() -> None:
    deadlock = next(find_deadlocks(read_listing("mariadb_error_log")))
    wide = deadlock.transactions[1].holds[0]
    assert len(wide.heap_nos) > 20
    assert "more entries of this lock are left out" in deadlock.text
    assert "WE ROLL BACK" in deadlock.text


def test_a_status_without_the_section_has_no_deadlock() -> None:
    assert parse_deadlock("") is None
    assert parse_deadlock("------------\nTRANSACTIONS\n------------\nTrx id counter 43262\n") is None


def test_a_statement_that_imitates_the_section_is_not_taken_for_it() -> None:
    listing = read_listing("mysql_8_claim_and_delete")
    imitation = listing.replace("DELETE", "DROP")
    assert parse_deadlock(listing) is not None
    assert parse_deadlock(f"LATEST FOREIGN KEY ERROR\n{imitation}\n{listing}") is None


def test_a_section_ends_where_the_next_one_begins() -> None:
    status = read_listing("mysql_57_too_deep")
    assert "Trx id counter" in status
    assert "Trx id counter" not in deadlock_of("mysql_57_too_deep").text


@pytest.mark.parametrize("listing", LISTINGS)
def test_a_text_that_breaks_off_anywhere_gives_what_it_has(listing: str) -> None:
    text = read_listing(listing)
    whole = next(find_deadlocks(text))
    for end in range(0, len(text), 37):
        cut = parse_deadlock(text[:end])
        if cut is not None:
            assert len(cut.transactions) <= len(whole.transactions)
            list(cut.waits())


@pytest.mark.parametrize("listing", LISTINGS)
def test_lines_in_any_order_and_odd_ones_between_do_no_harm(listing: str) -> None:
    chance = random.Random(listing)
    odd = [
        "*** (9) HOLDS THE LOCK(S):",
        "*** (x) TRANSACTION:",
        "TABLE LOCK",
        "RECORD LOCKS space id",
        " 0: len 4; hex 8; asc",
        "\ud800",
    ]
    lines = read_listing(listing).splitlines()
    for _ in range(20):
        mixed = ["LATEST DETECTED DEADLOCK", *chance.sample(lines + odd, len(lines))]
        for deadlock in find_deadlocks("\n".join(mixed)):
            assert Deadlock.from_sample_value(deadlock.to_sample_value()) == deadlock
