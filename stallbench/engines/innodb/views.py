"""Which transactions are open on an InnoDB server, and for which of them must purge keep old row versions, because they have a read view?

``information_schema.innodb_trx`` lists the transactions, but not their read views; only ``SHOW ENGINE INNODB STATUS`` has those. MySQL's status
leaves out a transaction that has only read. If its isolation level keeps the read view of the first read, it has one; purge says how old that is at most.

The status has the statements of every user, unescaped and with their ends of lines, so that a statement can contain what looks like the server's. A
line counts only in the place where the server writes it, and only if nothing contradicts it.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import pymysql

# More of a statement than the status has.
_OPEN = """
SELECT process.id, trx.trx_id, process.user, lower(process.command), timestampdiff(MICROSECOND, trx.trx_started, now(6)) / 1e6,
  coalesce(left(process.info, 4096), ''), version() LIKE '%MariaDB%',
  version() NOT LIKE '%MariaDB%' AND trx.trx_isolation_level IN ('REPEATABLE READ', 'SERIALIZABLE') AND trx.trx_rows_modified = 0
FROM information_schema.innodb_trx AS trx
JOIN information_schema.processlist AS process ON process.id = trx.trx_mysql_thread_id
WHERE process.id <> connection_id()
"""
IMITATED = "a statement imitates the server's status"
_CHANGED = "its statement changed while it was read, or imitates the server's status"
_NOT_LISTED = "the server's status does not list it"

_TRANSACTIONS = re.compile(r"^TRANSACTIONS\n-+\nTrx id counter (\d{1,20})\nPurge done for trx's n:o < (\d{1,20})", re.MULTILINE)
# No section behind this heading has a text of a user, so that its last one is the server's.
_AFTER_TRANSACTIONS = re.compile(r"^-+\nFILE I/O\n-+$", re.MULTILINE)
_VIEW_COUNT = re.compile(r"^(\d{1,9}) read views open inside InnoDB$", re.MULTILINE)
_TRANSACTION = "---TRANSACTION"
_HEAD = re.compile(r"---TRANSACTION (?:(\d{1,20})|\(\w+\)),? ")
_WITHOUT_THREAD = re.compile(
    r"mysql tables in use |[A-Z ]*\d+ lock struct|[A-Z ]*, undo log entries |Trx read view |-------|TABLE LOCK |RECORD LOCKS |Record lock, | \d+: |[A-Z ]*$"
)
"""How a line begins that the server writes before that of the session, or if there is none."""
_THREAD = re.compile(r"(?:MySQL|MariaDB) thread id (\d{1,20}), OS thread handle ")
_VIEW = re.compile(r"Trx read view will not see trx with id >= \d{1,20}, sees < (\d{1,20})")
_AFTER_VIEW = ("------- TRX HAS BEEN WAITING", "TABLE LOCK ", "RECORD LOCKS ")
"""How the line after that of the view begins, if the server writes one; the latter two if it lists all locks."""
_TRIES = 3
"""The status and the list of transactions are two readings; what did not change between them is known from the first pair that agrees."""
_YOUNGEST_S = 1.0


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
    view_unknown_because: str = ""
    """Why it is not known whether it has a read view; empty if that is known. A view is no older than its transaction, so that this is said only
    of one older than a second, or if nothing of the status can be trusted."""


class ListedTransaction(NamedTuple):
    """A transaction of a session, as the status has it."""

    thread_id: int
    trx_id: int
    """0 of one that has written nothing, on MariaDB."""
    sees: int | None
    """The first transaction that its read view does not see for certain; none if it has no view."""
    view: str
    """The line with its view; empty if it has none."""
    statement: str
    """What is between its session and its view: the statement, which the server may have cut off."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadViews:
    """What the status says of read views and of purge."""

    counter: int | None = None
    """The next transaction."""
    purged: int | None = None
    """Up to which transaction old versions have been purged."""
    listed: tuple[ListedTransaction, ...] = ()
    view_count: int | None = None
    """How many views the server says are open, a moment after it has listed them."""
    is_imitated: bool = False
    """Whether a statement imitates the status. Nothing else is known then."""

    @property
    def unpurged_transactions(self) -> int | None:
        """How many have begun since the last whose old versions have been purged."""
        return None if self.counter is None or self.purged is None else max(0, self.counter - self.purged)

    @property
    def are_all_counted(self) -> bool:
        """Whether the server has counted as many views as it has listed."""
        return self.view_count == sum(one.sees is not None for one in self.listed)


class TransactionRow(NamedTuple):
    """A transaction of ``information_schema.innodb_trx``."""

    thread_id: int
    trx_id: int
    user: str
    state: str
    age_s: float
    statement: str
    is_mariadb: bool
    keeps_view: bool


def read_open_transactions(connection: pymysql.Connection[Any]) -> list[OpenTransaction]:
    """Return the open transactions of sessions, the oldest first, without the reader's own.

    InnoDB renews its list only if it has not been read for 0.1 s. Raises `pymysql.Error` 1227 without the PROCESS privilege.
    """
    found: list[OpenTransaction] = []
    for _ in range(_TRIES):
        views = read_views(connection)
        with connection.cursor() as cursor:
            cursor.execute(_OPEN)
            rows = [
                TransactionRow(
                    int(thread), int(trx), str(user), str(state), max(0.0, float(age_s or 0)), str(info), bool(maria), bool(keeps)
                )
                for thread, trx, user, state, age_s, info, maria, keeps in cursor.fetchall()
            ]
        found = find_views(rows, views)
        if not any(one.view_unknown_because for one in found):
            break
    return sorted(found, key=lambda one: -one.age_s)


def find_views(rows: Sequence[TransactionRow], views: ReadViews) -> list[OpenTransaction]:
    """Return the transactions of the list with the read views of the status, as far as both agree."""
    per_thread = Counter(row.thread_id for row in rows)
    # A session has more than one transaction while it changes a table, and both list each.
    is_imitated = views.is_imitated or any(
        count > max(1, per_thread[thread]) for thread, count in Counter(one.thread_id for one in views.listed).items()
    )
    listed = {(one.thread_id, one.trx_id): one for one in views.listed}
    found = []
    for row in rows:
        age, why = (None, IMITATED) if is_imitated else _find_view(row, listed.get((row.thread_id, row.trx_id)), views)
        found.append(
            OpenTransaction(
                thread_id=row.thread_id,
                user=row.user,
                state=row.state,
                age_s=row.age_s,
                view_age_xids=age,
                view_unknown_because=why if is_imitated or row.age_s >= _YOUNGEST_S else "",
            )
        )
    return found


def _find_view(row: TransactionRow, listed: ListedTransaction | None, views: ReadViews) -> tuple[int | None, str]:
    """Return the age of a transaction's view, none if it has none; and why that is not known."""
    if listed is None:
        return (None, _NOT_LISTED) if row.is_mariadb else (views.unpurged_transactions if row.keeps_view else None, "")
    if listed.sees is None:
        return None, ""
    if listed.view in row.statement:
        return None, IMITATED
    # The statement ends where the server says the view begins; if it is another one by now, as many views are listed as there are.
    if not row.statement.startswith(listed.statement) and not views.are_all_counted:
        return None, _CHANGED
    return max(0, (views.counter or 0) - listed.sees), ""


def read_views(connection: pymysql.Connection[Any]) -> ReadViews:
    """Read the status of the server's transactions."""
    with connection.cursor() as cursor:
        cursor.execute("SHOW ENGINE INNODB STATUS")
        row = cursor.fetchone()
    return parse_views(str(row[2]) if row else "")


def parse_views(status: str) -> ReadViews:
    """Read it from the text of ``SHOW ENGINE INNODB STATUS``: from the only section of transactions.

    Sections before it, such as that of the latest foreign key error, and its own statements can contain its heading: with a second one it is not
    known which is the server's.
    """
    *_, end = [len(status), *(found.start() for found in _AFTER_TRANSACTIONS.finditer(status))]
    headings = list(_TRANSACTIONS.finditer(status, 0, end))
    if len(headings) != 1:
        return ReadViews(is_imitated=bool(headings))
    (heading,) = headings
    blocks: list[list[str]] = []
    # Not splitlines(), which ends a line at more than the server does.
    for line in status[heading.end() : end].rstrip("\n").split("\n"):
        if line.startswith(_TRANSACTION):
            blocks.append([line])
        elif blocks:
            blocks[-1].append(line)
    try:
        listed = [one for block in blocks if (one := _parse_block(block)) is not None]
    except _ImitationError:
        return ReadViews(is_imitated=True)
    counts = _VIEW_COUNT.findall(status, end)
    return ReadViews(
        counter=int(heading[1]), purged=int(heading[2]), listed=tuple(listed), view_count=int(counts[-1]) if counts else None
    )


class _ImitationError(Exception):
    """A line is not where the server writes it."""


def _parse_block(block: Sequence[str]) -> ListedTransaction | None:
    """Read what is listed of one transaction; none if it has no session.

    After its head the server writes its locks, its session, the statement of the session, its view, and the lock for which it waits.
    """
    head = _HEAD.match(block[0])
    threads = [number for number, line in enumerate(block) if _THREAD.match(line)]
    first = threads[0] if threads else len(block)
    if not head or len(threads) > 1 or not all(_WITHOUT_THREAD.match(line) for line in block[1:first]):
        raise _ImitationError
    if not threads:
        return None
    thread = _THREAD.match(block[first])
    views = [(number, found) for number, line in enumerate(block) if (found := _VIEW.fullmatch(line))]
    sees, view, end = None, "", len(block)
    if views:
        ((end, match), *more) = views
        behind = block[end + 1 :]
        if more or end < first or (behind and not behind[0].startswith(_AFTER_VIEW)):
            raise _ImitationError
        sees, view = int(match[1]), match[0]
    assert thread is not None
    return ListedTransaction(int(thread[1]), int(head[1] or 0), sees, view, "\n".join(block[first + 1 : end]))
