"""PostgreSQL's reports of deadlocks are read from its log: who waited for whom, and who was rolled back.

``postgres_log/postgres_15.txt`` is the log of a real server of the bench (15.18), with eight deadlocks.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from stallbench.engines.deadlocks.deadlock import Deadlock, shape_of
from stallbench.engines.deadlocks.diagram import draw_deadlock
from stallbench.engines.deadlocks.groups import group_deadlocks
from stallbench.engines.postgres.deadlock_log import DeadlockLog, find_unnamed_relations, name_parts

LOG = (Path(__file__).parent / "postgres_log" / "postgres_15.txt").read_text().splitlines()
LONG, OF_SEVERAL_LINES, DELETE, ADVISORY, TABLE, THREE, _, UNIQUE_KEY = range(8)
NAMES = {"relation 16416 of database 16384": "jobs"}


def deadlocks_of(lines: list[str]) -> list[Deadlock]:
    log = DeadlockLog()
    return [*log.read(lines), *log.read([])]


def deadlock_of(number: int) -> Deadlock:
    return deadlocks_of(LOG)[number]


def describe_waits(deadlock: Deadlock) -> list[str]:
    return [f"{w.waiter.thread_id} waits for {w.lock.target}, {w.holder and w.holder.thread_id}" for w in deadlock.waits()]


def test_every_deadlock_is_found_also_several_within_a_second() -> None:
    assert [deadlock.when for deadlock in deadlocks_of(LOG)][:4] == [
        "2026-11-23 08:27:47.395",
        "2026-11-23 08:27:47.397",
        "2026-11-23 08:27:47.398",
        "2026-11-23 08:27:47.534",
    ]
    assert len(deadlocks_of(LOG)) == sum(group.count for group in group_deadlocks(deadlocks_of(LOG) * 2)) == 8


def test_who_wrote_the_report_was_rolled_back_and_is_known_with_row_and_name() -> None:
    victim, other = deadlock_of(DELETE).transactions
    assert victim.waits_for is not None and other.waits_for is not None
    assert (victim.thread_id, victim.rolled_back, victim.application) == (5702, True, "stallbench:worker-1")
    assert (victim.sql, other.sql) == ("DELETE FROM jobs WHERE id = 2", "DELETE FROM jobs WHERE id = 1")
    assert (victim.transaction_id, other.transaction_id) == ("732", "735")
    assert (victim.waits_for.target, victim.waits_for.keys, victim.waits_for.mode) == ("jobs", ("tuple (0,2)",), "ShareLock")
    assert other.waits_for.target == "a row of a table that the server does not name"


def test_the_next_one_blocks_each_and_the_first_one_blocks_the_last() -> None:
    assert describe_waits(name_parts(deadlock_of(THREE), relations=NAMES, applications={}, cut_off_bytes=None)) == [
        "5723 waits for jobs, 5724",
        "5724 waits for a row of a table that the server does not name, 5725",
        "5725 waits for jobs, 5723",
    ]


def test_a_statement_of_several_lines_keeps_them() -> None:
    of_victim, of_other = (transaction.sql for transaction in deadlock_of(OF_SEVERAL_LINES).transactions)
    assert of_victim.splitlines() == ["UPDATE jobs", "  SET state = 'it''s', -- a worker's", "    payload = ''", "WHERE id = 4"]
    assert of_other.endswith("WHERE id = 3")


def test_a_line_of_a_statement_that_looks_like_the_next_one_s_beginning_is_part_of_it() -> None:
    lines = [line.replace("	WHERE id = 3", "	WHERE id = 3 /*\n	Process 5703: DELETE FROM jobs */") for line in LOG]
    deadlock = deadlocks_of("\n".join(lines).splitlines())[OF_SEVERAL_LINES]
    assert deadlock.transactions[1].sql.endswith("/*\nProcess 5703: DELETE FROM jobs */")


def test_the_victim_s_statement_is_whole_and_the_other_one_is_known_to_be_cut_off() -> None:
    victim, other = name_parts(deadlock_of(LONG), relations={}, applications={}, cut_off_bytes=1024).transactions
    assert (victim.sql[-12:], victim.is_cut_off) == ("WHERE id = 6", False)
    assert (len(other.sql.encode()), other.is_cut_off) == (1023, True)
    assert shape_of(other.sql, "postgres") == "UPDATE jobs SET payload = ?"


@pytest.mark.parametrize(
    ("number", "targets", "keys"),
    [
        (ADVISORY, {"an advisory lock"}, {"key 1, 2", "key 42"}),
        (TABLE, {"jobs"}, set()),
        (UNIQUE_KEY, {"jobs_pkey", "a row of a table that the server does not name"}, {"tuple (0,19)"}),
    ],
)
def test_what_is_waited_for_is_named(number: int, targets: set[str], keys: set[str]) -> None:
    deadlock = name_parts(deadlock_of(number), relations=NAMES, applications={}, cut_off_bytes=None)
    locks = [transaction.waits_for for transaction in deadlock.transactions if transaction.waits_for]
    assert {lock.target for lock in locks} == targets
    assert {key for lock in locks for key in lock.keys} == keys


def test_only_relations_without_a_name_are_looked_up() -> None:
    assert find_unnamed_relations(deadlock_of(TABLE)) == {16416}
    assert find_unnamed_relations(deadlock_of(DELETE)) == set()


@pytest.mark.parametrize("number", range(8))
def test_every_report_can_be_drawn_and_survives_as_a_sample(number: int) -> None:
    deadlock = deadlock_of(number)
    assert Deadlock.from_sample_value(deadlock.to_sample_value()) == deadlock
    svg = draw_deadlock(deadlock, {5702: "worker-1"})
    assert svg.count(">blocked by<") == len(deadlock.transactions) == svg.count(">waits for<")
    assert svg.count(">rolled back<") == 1


def test_a_report_that_is_read_in_pieces_is_read_once_and_whole() -> None:
    log = DeadlockLog()
    pieces = [deadlock for line in LOG for deadlock in log.read([line])]
    assert [replace(one, text="") for one in pieces if one.when == "2026-11-23 08:27:47.398"] == [
        replace(deadlock_of(DELETE), text="")
    ]
    assert len(pieces) == 8


@pytest.mark.parametrize("end", range(0, len(LOG), 5))
def test_a_log_that_breaks_off_anywhere_gives_what_it_has(end: int) -> None:
    for deadlock in deadlocks_of(LOG[:end]):
        list(deadlock.waits())
        draw_deadlock(deadlock)


def test_a_report_without_its_detail_has_its_victim_alone() -> None:
    lines = [line for line in LOG if "08:27:47.398" in line and "DETAIL" not in line]  # log_error_verbosity = terse
    (deadlock,) = deadlocks_of(lines)
    assert [(t.thread_id, t.sql, t.waits_for) for t in deadlock.transactions] == [(5702, "DELETE FROM jobs WHERE id = 2", None)]


@pytest.mark.parametrize("application", ["", "psql", "my app [1] v2"])
def test_an_application_of_any_name_is_read(application: str) -> None:
    lines = [line.replace("stallbench:worker-1", application) for line in LOG]
    assert deadlocks_of(lines)[DELETE].transactions[0].application == application


@pytest.mark.parametrize(
    ("sql", "shape"),
    [
        ('UPDATE "jobs" SET "state" = E\'it\\\'s\' WHERE id = $1', "UPDATE jobs SET state = ? WHERE id = ?"),
        ("SELECT 'a\\' || 'b' FROM jobs", "SELECT ? || ? FROM jobs"),
        ("SELECT $tag$it's$tag$ -- one worker's\nFROM jobs /* 'x */ WHERE id = 7", "SELECT ? FROM jobs WHERE id = ?"),
        ("INSERT INTO jobs VALUES (1, 'a'), (2, 'b'), (3, 'lon", "INSERT INTO jobs VALUES (?, ...), ..."),
    ],
)
def test_a_shape_reads_strings_and_names_as_postgresql_does(sql: str, shape: str) -> None:
    assert shape_of(sql, "postgres") == shape
