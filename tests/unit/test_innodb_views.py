"""What is read of read views and purge from InnoDB's status."""

from __future__ import annotations

from stallbench.engines.collectors.innodb_views import parse_views

STATUS = """
TRANSACTIONS
------------
Trx id counter 1226
Purge done for trx's n:o < 13 undo n:o < 0 state: running
History list length 605
LIST OF TRANSACTIONS FOR EACH SESSION:
---TRANSACTION (0x7fb690f6e180), not started
0 lock struct(s), heap size 1128, 0 row lock(s)
---TRANSACTION 23, ACTIVE 1 sec
1 lock struct(s), heap size 1128, 0 row lock(s), undo log entries 1
MariaDB thread id 7, OS thread handle 140422078666432, query id 22 127.0.0.1 longrunner:idle_writer-1
---TRANSACTION (0x7fb690f6cb80), ACTIVE 1 sec
0 lock struct(s), heap size 1128, 0 row lock(s)
MariaDB thread id 6, OS thread handle 140422078973632, query id 20 127.0.0.1 longrunner:snapshot_reader-1
Trx read view will not see trx with id >= 23, sees < 23
---TRANSACTION 421, ACTIVE 0 sec
MySQL thread id 9, OS thread handle 1, query id 2 127.0.0.1 worker-1 updating
DELETE FROM jobs WHERE note = 'Trx read view will not see trx with id'
Trx read view will not see trx with id >= 1226, sees < 1225
"""


def test_a_view_is_as_old_as_the_transactions_that_it_does_not_see() -> None:
    views = parse_views(STATUS)
    assert views.age_xids == {6: 1203, 9: 1}
    assert views.listed == {6, 7, 9}
    assert views.unpurged_transactions == 1213


def test_a_status_without_transactions_has_no_sample() -> None:
    views = parse_views("")
    assert (views.age_xids, views.unpurged_transactions) == ({}, None)
