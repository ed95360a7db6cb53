"""Like deadlocks are counted together, and the report shows each kind once."""

from __future__ import annotations

from dataclasses import replace

from stallbench.engines.deadlocks.groups import UNKNOWN, group_deadlocks
from stallbench.report import open_template
from tests.unit.innodb_listings import deadlock_of


def render(**values: object) -> str:
    return open_template("deadlocks.html.j2", autoescape=True).render(**({"unread_logs": []} | values))


def test_deadlocks_of_the_same_statements_are_one_group() -> None:
    deletes = [replace(deadlock_of("mariadb_delete_is_victim"), when=f"2026-11-21 02:03:1{second}") for second in range(3)]
    first, second = group_deadlocks([deadlock_of("mariadb_claim_is_victim"), *deletes])
    assert (first.count, first.victim, first.repeats_job) == (3, "delete from jobs where id = ?", True)
    assert (second.count, second.victim[:13], second.repeats_job) == (1, "select * from", False)


def test_the_same_deadlock_read_twice_counts_once() -> None:
    (group,) = group_deadlocks([deadlock_of("mariadb_two_rows")] * 5)
    assert group.count == 1


def test_unknown_victims_form_a_group() -> None:
    deadlock = deadlock_of("mariadb_two_rows")
    unknown = replace(deadlock, transactions=tuple(replace(t, rolled_back=False) for t in deadlock.transactions))
    (group,) = group_deadlocks([unknown])
    assert group.victim == UNKNOWN


def test_the_report_shows_count_drawing_and_listing() -> None:
    page = render(deadlocks=group_deadlocks([deadlock_of("mariadb_delete_is_victim")]), deadlock_count=117)
    assert "The server counted 117 deadlocks in the phases; the bench recorded the server's listings of 1," in page
    assert "<svg class=" in page
    assert "WE ROLL BACK TRANSACTION (1)" in page
    assert "will be re-executed" in page


def test_a_log_that_the_bench_cannot_read_is_named_beside_the_server_s_count() -> None:
    page = render(deadlocks=[], deadlock_count=3, unread_logs=["primary"])
    assert "The server counted 3 deadlocks in the phases" in page
    assert "The deadlocks of primary are not described here" in page


def test_a_delete_that_returns_its_job_is_a_claim_and_repeats_nothing() -> None:
    deadlock = deadlock_of("mariadb_delete_is_victim")
    claims = tuple(replace(t, sql=f"{t.sql} returning id") if t.rolled_back else t for t in deadlock.transactions)
    (group,) = group_deadlocks([replace(deadlock, transactions=claims)])
    assert not group.repeats_job


def test_without_deadlocks_the_report_does_not_mention_them() -> None:
    assert render(deadlocks=[], deadlock_count=None).strip() == ""
