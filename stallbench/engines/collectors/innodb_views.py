"""Which transactions are open on an InnoDB server, and for which of them must purge keep old row versions, because they have a read view?

``information_schema.innodb_trx`` lists the transactions, but not their read views; only ``SHOW ENGINE INNODB STATUS`` has those. MySQL's status
leaves out a transaction that has only read. If its isolation level keeps the read view of the first read, it has one; purge says how old that is at most.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pymysql

_OPEN = """
SELECT process.id, process.user, lower(process.command), timestampdiff(MICROSECOND, trx.trx_started, now(6)) / 1e6,
  version() NOT LIKE '%MariaDB%' AND trx.trx_isolation_level IN ('REPEATABLE READ', 'SERIALIZABLE') AND trx.trx_rows_modified = 0
FROM information_schema.innodb_trx AS trx
JOIN information_schema.processlist AS process ON process.id = trx.trx_mysql_thread_id
WHERE process.id <> connection_id()
"""
_TRANSACTION = "---TRANSACTION"
_THREAD = re.compile(r"^(?:MySQL|MariaDB) thread id (\d+)")
_VIEW = re.compile(r"^Trx read view will not see trx with id >= \d+, sees < (\d+)")
_COUNTER = re.compile(r"^Trx id counter (\d+)")
_PURGED = re.compile(r"^Purge done for trx's n:o < (\d+)")


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenTransaction:
    """A transaction of a session."""

    thread_id: int
    user: str
    state: str
    """``sleep`` if its client does nothing."""
    age_s: float
    """Since it began; the server gives whole seconds only."""
    view_age_xids: int | None
    """How many transactions have begun since the oldest that its read view may want to see; none if it has no view, and purge need not
    mind it. Of a transaction that MySQL's status leaves out: at most so many."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadViews:
    """What the status says of read views and of purge."""

    age_xids: dict[int, int]
    """By thread: as in `OpenTransaction`."""
    listed: frozenset[int]
    """The threads whose transactions the status lists."""
    unpurged_transactions: int | None
    """How many have begun since the last whose old versions have been purged."""


def read_open_transactions(connection: pymysql.Connection[Any]) -> list[OpenTransaction]:
    """Return the open transactions of sessions, the oldest first, without the reader's own.

    InnoDB renews its list only if it has not been read for 0.1 s. Raises `pymysql.Error` 1227 without the PROCESS privilege.
    """
    views = read_views(connection)
    with connection.cursor() as cursor:
        cursor.execute(_OPEN)
        rows = cursor.fetchall()
    found = [
        OpenTransaction(
            thread_id=int(thread),
            user=str(user),
            state=str(state),
            age_s=max(0.0, float(age_s or 0)),
            view_age_xids=(
                views.unpurged_transactions if keeps_view and int(thread) not in views.listed else views.age_xids.get(int(thread))
            ),
        )
        for thread, user, state, age_s, keeps_view in rows
    ]
    return sorted(found, key=lambda one: -one.age_s)


def read_views(connection: pymysql.Connection[Any]) -> ReadViews:
    """Read the status of the server's transactions."""
    with connection.cursor() as cursor:
        cursor.execute("SHOW ENGINE INNODB STATUS")
        row = cursor.fetchone()
    return parse_views(str(row[2]) if row else "")


def parse_views(status: str) -> ReadViews:
    """Read it from the text of ``SHOW ENGINE INNODB STATUS``."""
    counter = _first(_COUNTER, status)
    purged = _first(_PURGED, status)
    ages = {thread: (counter or sees) - sees for thread, sees in _list_views(status)}
    listed = frozenset(int(match[1]) for line in status.splitlines() if (match := _THREAD.match(line)))
    return ReadViews(
        age_xids=ages,
        listed=listed,
        unpurged_transactions=None if counter is None or purged is None else max(0, counter - purged),
    )


def _list_views(status: str) -> Iterator[tuple[int, int]]:
    """Go through the threads with a read view, and the first transaction that each does not see for certain."""
    thread: int | None = None
    for line in status.splitlines():
        if line.startswith(_TRANSACTION):
            thread = None
        elif match := _THREAD.match(line):
            thread = int(match[1])
        elif thread is not None and (match := _VIEW.match(line)):
            yield thread, int(match[1])


def _first(pattern: re.Pattern[str], status: str) -> int | None:
    return next((int(match[1]) for line in status.splitlines() if (match := pattern.match(line))), None)
