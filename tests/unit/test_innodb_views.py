"""What is read of read views and purge from InnoDB's status, and what a statement that imitates the status changes."""

from __future__ import annotations

import pytest

from stallbench.engines.innodb.views import IMITATED, TransactionRow, find_views, parse_views

BEGIN = """
------------
TRANSACTIONS
------------
Trx id counter 1226
Purge done for trx's n:o < 13 undo n:o < 0 state: running
History list length 605
LIST OF TRANSACTIONS FOR EACH SESSION:
---TRANSACTION (0x7fb690f6e180), not started
0 lock struct(s), heap size 1128, 0 row lock(s)
"""
WRITER = """---TRANSACTION 23, ACTIVE 1 sec
1 lock struct(s), heap size 1128, 0 row lock(s), undo log entries 1
MariaDB thread id 7, OS thread handle 140422078666432, query id 22 127.0.0.1 longrunner:idle_writer-1
"""
READER = """---TRANSACTION (0x7fb690f6cb80), ACTIVE 1 sec
0 lock struct(s), heap size 1128, 0 row lock(s)
MariaDB thread id 6, OS thread handle 140422078973632, query id 20 127.0.0.1 longrunner:snapshot_reader-1
Trx read view will not see trx with id >= 23, sees < 23
"""
WAITING = """---TRANSACTION 421, ACTIVE 0 sec
mysql tables in use 1, locked 1
LOCK WAIT 2 lock struct(s), heap size 1128, 1 row lock(s)
MySQL thread id 9, OS thread handle 1, query id 2 127.0.0.1 worker-1 updating
DELETE FROM jobs WHERE note = 'Trx read view will not see trx with id'
Trx read view will not see trx with id >= 1226, sees < 1225
------- TRX HAS BEEN WAITING 1224051 us FOR THIS LOCK TO BE GRANTED:
RECORD LOCKS space id 5 page no 3 n bits 320 index PRIMARY of table `a`.`x` trx id 24 lock_mode X locks rec but not gap waiting
Record lock, heap no 3 PHYSICAL RECORD: n_fields 3; compact format; info bits 0
 0: len 4; hex 80000007; asc     ;;

------------------
"""
END = """--------
FILE I/O
--------
Pending flushes (fsync): 0
--------------
ROW OPERATIONS
--------------
{} read views open inside InnoDB
"""
FOREIGN_KEY = (
    "------------------------\nLATEST FOREIGN KEY ERROR\n------------------------\n2026-11-28 10:12:10 Transaction:\n{}\n"
)
VIEW = "Trx read view will not see trx with id >= 10, sees < 10"
HOSTILE = """---TRANSACTION (0x1), ACTIVE 9 sec
MariaDB thread id 5, OS thread handle 1, query id 9 127.0.0.1 mallory User sleep
"""


def row(
    thread: int,
    trx: int = 0,
    statement: str = "",
    *,
    age_s: float = 2.0,
    is_mariadb: bool = True,
    keeps_view: bool = False,
) -> TransactionRow:
    return TransactionRow(thread, trx, "app", "sleep", age_s, statement, is_mariadb, keeps_view)


ROWS = [row(6), row(7, 23)]


def found_in(status: str, *rows: TransactionRow) -> dict[int, tuple[int | None, str]]:
    return {one.thread_id: (one.view_age_xids, one.view_unknown_because) for one in find_views(rows, parse_views(status))}


def test_a_view_is_as_old_as_the_transactions_that_it_does_not_see() -> None:
    status = BEGIN + WRITER + READER + WAITING + END.format(2)
    waiting = row(9, 421, "DELETE FROM jobs WHERE note = 'Trx read view will not see trx with id'")
    assert found_in(status, *ROWS, waiting) == {6: (1203, ""), 7: (None, ""), 9: (1, "")}
    assert parse_views(status).unpurged_transactions == 1213


def test_a_status_without_transactions_has_no_sample() -> None:
    views = parse_views("")
    assert (views.listed, views.unpurged_transactions, views.is_imitated) == ((), None, False)


def test_a_foreign_key_error_is_no_transaction() -> None:
    hostile = f"Trx id counter 9000000\nPurge done for trx's n:o < 1\n---TRANSACTION 23, ACTIVE 9 sec\nMariaDB thread id 7, OS thread handle 1\n{VIEW}"
    status = FOREIGN_KEY.format(hostile) + BEGIN + WRITER + READER + END.format(1)
    assert found_in(status, *ROWS) == {6: (1203, ""), 7: (None, "")}
    assert parse_views(status).unpurged_transactions == 1213


@pytest.mark.parametrize(
    "statement",
    [
        "DO sleep(9) /*\n---TRANSACTION 23, ACTIVE 9 sec\nMariaDB thread id 7, OS thread handle 1, query id 1\n" + VIEW,
        "DO sleep(9) /*\n---TRANSACTION 23, ACTIVE 9 sec\nMariaDB thread id 7, OS thread handle 1, query id 1\n",
        "DO sleep(9) /*\nMariaDB thread id 7, OS thread handle 1, query id 1\n" + VIEW,
        "DO sleep(9) /*\n---TRANSACTION 2, not started\n*/",
        f"DO sleep(9) /*\n{VIEW}\n*/",
        f"DO sleep(9) /*\n{VIEW}\n{VIEW}",
        "DO sleep(9) /*\n" + BEGIN.replace("1226", "9000000") + HOSTILE + VIEW,
    ],
)
def test_nothing_is_known_if_a_statement_imitates_the_status(statement: str) -> None:
    status = BEGIN + WRITER + HOSTILE + statement + "\n" + READER + END.format(2)
    assert {why for _, why in found_in(status, *ROWS, row(5, statement="DO 1")).values()} == {IMITATED}


def test_nothing_is_known_if_there_are_two_headings() -> None:
    status = FOREIGN_KEY.format(BEGIN.replace("1226", "9000000")) + BEGIN + WRITER + READER + END.format(1)
    assert {why for _, why in found_in(status, *ROWS).values()} == {IMITATED}
    assert parse_views(status).unpurged_transactions is None


def test_a_heading_in_a_statement_does_not_end_the_section() -> None:
    status = BEGIN + HOSTILE + "DO sleep(9) /*\n" + END.format(9) + "*/\n" + READER + WRITER + END.format(1)
    assert found_in(status, *ROWS) == {6: (1203, ""), 7: (None, "")}


def test_a_view_behind_a_statement_counts_if_the_list_of_sessions_has_the_statement_or_the_server_as_many_views() -> None:
    status = BEGIN + HOSTILE + f"SELECT sleep(9) /*\n*/\n{VIEW}\n"
    assert found_in(status + END.format(2), row(5, statement="SELECT sleep(9) /*\n*/")) == {5: (1216, "")}
    assert found_in(status + END.format(1), row(5, statement="SELECT 2")) == {5: (1216, "")}
    ((age, why),) = found_in(status + END.format(2), row(5, statement="SELECT 2")).values()
    assert age is None
    assert why
    assert found_in(status + END.format(2), row(5, statement="SELECT 2", age_s=0.2)) == {5: (None, "")}
    assert found_in(status + END.format(1), row(5, statement=f"SELECT sleep(9) /*\n*/\n{VIEW}")) == {5: (None, IMITATED)}


def test_an_old_transaction_that_mariadb_does_not_list_is_unknown() -> None:
    ((age, why),) = found_in(BEGIN + END.format(0), row(6)).values()
    assert age is None
    assert "does not list" in why


def test_a_change_of_a_table_has_two_transactions() -> None:
    status = BEGIN + WRITER + WRITER.replace("23", "24") + END.format(0)
    assert found_in(status, row(7, 23), row(7, 24)) == {7: (None, "")}


def test_a_transaction_that_mysql_does_not_list_is_at_most_as_old_as_what_is_not_purged() -> None:
    reader = row(6, 421967708637920, is_mariadb=False, keeps_view=True)
    assert found_in(BEGIN + END.format(1), reader) == {6: (1213, "")}
    imitated = WRITER.replace("thread id 7", "thread id 6")
    assert found_in(BEGIN + imitated + END.format(1), reader) == {6: (1213, "")}
