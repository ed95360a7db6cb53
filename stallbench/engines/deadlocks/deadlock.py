"""A deadlock as the server describes it: which transaction held and waited for which lock, and which one was rolled back.

The server rolls back one transaction of the cycle. If that is the DELETE of a worker, the worker has done its job, but the job stays in the table and
is re-executed. The listing has the statement that was rolled back.
"""

from __future__ import annotations

import base64
import re
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from pydantic import TypeAdapter

from stallbench.engines.deadlocks.style import style_of
from stallbench.sql_literals import LiteralSyntax, hide_literals

LockKind = Literal[
    "rec but not gap",
    "gap",
    "next-key",
    "insert intention",
    "table",
    "transaction",
    "virtual transaction",
    "tuple",
    "page",
    "extension",
    "advisory",
    "",
]
"""InnoDB. ``rec but not gap``: the index entry alone. ``gap``: the space before an entry, or behind the last one. ``next-key``: both,
which is what a locking read takes under REPEATABLE READ. ``insert intention``: asks for a gap in order to insert. ``table``.

PostgreSQL. ``transaction``: the end of a transaction that wrote or locked a row, or inserted a key. ``virtual transaction``: the same of one that
may only have read. ``tuple``: the first place among those that wait for a row. ``page``; ``extension`` of a table; ``table``; ``advisory``.
Empty: the text did not say, or it is none of these."""

_WITHOUT_TABLE: Mapping[LockKind, str] = {
    "transaction": "a row of a table that the server does not name",
    "virtual transaction": "the end of a session's transaction",
    "advisory": "an advisory lock",
}

_NUMBER = re.compile(r"(?<![\w`.])-?\d+(?:\.\d+)?\b")
_LIST = re.compile(r"\(\s*\?(?:\s*,\s*\?)+\s*(?:\)|$)")
_LISTS = re.compile(r"\(\?, \.\.\.\)(?:\s*,\s*\(\?, \.\.\.\))+")


@dataclass(frozen=True, slots=True, kw_only=True)
class Lock:
    """A lock on entries of an index, or on a table."""

    table: str
    """With its database, unquoted: ``bench.jobs``; a partition follows a ``#``. PostgreSQL's are without database and schema, and may be an index.
    Empty if the text did not say."""
    index: str
    """Empty for a lock on the table."""
    mode: str
    """``X``, ``S``, ``IX``, ``IS``, ``AUTO-INC``; on PostgreSQL ``ShareLock``, ``ExclusiveLock``, ...; empty when the text did not say."""
    kind: LockKind
    transaction_id: str
    """The transaction that holds it or waits for it; ``0`` for a transaction that has only read so far. Empty if the text did not say."""
    space: int | None = None
    page: int | None = None
    heap_nos: tuple[int, ...] = ()
    """Entries on that page, by the number the server gives them; 1 is the end of the index."""
    keys: tuple[str, ...] = ()
    """The readable content of those entries, one for each of `heap_nos`: ``default, 209``. On PostgreSQL the row, ``tuple (0,2)``, or a key."""

    @property
    def target(self) -> str:
        """What is locked: table and index without the database, ``jobs.PRIMARY``, or ``jobs`` alone; in words if no table is known."""
        table = self.table.rpartition(".")[2] or _WITHOUT_TABLE.get(self.kind, "")
        return f"{table}.{self.index}" if self.index else table

    def overlaps(self, other: Lock) -> bool:
        """Whether both lock the same entry, or the same index if the listing has no entries."""
        if (self.table, self.index) != (other.table, other.index):
            return False
        if not self.heap_nos or not other.heap_nos:
            return True
        same_page = (self.space, self.page) == (other.space, other.page)
        return same_page and not set(self.heap_nos).isdisjoint(other.heap_nos)


@dataclass(frozen=True, slots=True, kw_only=True)
class Transaction:
    """One of the transactions that the server lists."""

    number: int
    """Its number in the listing, from 1."""
    transaction_id: str
    thread_id: int | None = None
    """The connection's id, so that a worker can be named by it: what ``CONNECTION_ID()`` returns; on PostgreSQL the session's process."""
    query_id: int | None = None
    user: str = ""
    application: str = ""
    """PostgreSQL's application name: ``stallbench:worker-3``."""
    host: str = ""
    state: str = ""
    """What the server was doing for it: ``Updating``, ``Sending data``."""
    sql: str = ""
    """The statement that waited, cut off by InnoDB at 3000 bytes and by PostgreSQL at ``track_activity_query_size``. The earlier statements, which
    took the locks, are not listed."""
    is_cut_off: bool = False
    """Whether a PostgreSQL statement is known to be cut off."""
    waits_for: Lock | None = None
    holds: tuple[Lock, ...] = ()
    rolled_back: bool = False
    lock_structs: int | None = None
    undo_entries: int | None = None

    @property
    def weight(self) -> int | None:
        """Lock structures plus undo log entries: the server rolls back the transaction with the fewest."""
        if self.lock_structs is None:
            return None
        return self.lock_structs + (self.undo_entries or 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Wait:
    """One edge of the cycle: a transaction waits for a lock of another one."""

    waiter: Transaction
    lock: Lock
    """The lock that it waits for."""
    holder: Transaction | None
    """The transaction that holds it; None if the listing does not say."""
    held: Lock | None
    """The lock that blocks it; None if the listing does not have it."""
    unlisted: int
    """How many locks of transactions that are not listed also block it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Deadlock:
    """The latest deadlock that a server describes."""

    when: str
    """As the server wrote it, in its own time zone: ``2026-11-21 02:03:14``; PostgreSQL writes milliseconds, too."""
    server: str
    """The engine of the server that wrote the listing, as the listing says; empty if it does not say."""
    transactions: tuple[Transaction, ...]
    other_locks: tuple[Lock, ...] = ()
    """Blocking locks whose transactions are not listed."""
    too_deep: bool = False
    """Whether the server gave up its search for a cycle (over 200 transactions or a million locks) and rolled back the searching transaction."""
    victim_said: int | None = None
    """The number that the server named as rolled back; MariaDB writes 0 if it does not know."""
    victim_by: Literal["server", "weight", ""] = ""
    """What identifies the victim: the server's number, the weights if they contradict that number, or nothing."""
    text: str = ""
    """The listing; of each lock the first entries only."""

    @property
    def victim(self) -> Transaction | None:
        """The transaction that was rolled back, if it is known and listed."""
        return next((transaction for transaction in self.transactions if transaction.rolled_back), None)

    def waits(self) -> Iterator[Wait]:
        """Yield the cycle: each transaction's wait, and the transaction that blocks it as far as the listing says.

        All servers list the transactions in the order in which each waits for the next, and the last for the first. If no
        blocking lock is listed, the holder follows from this order on MariaDB, and on PostgreSQL, which never lists one. It does not on
        MySQL: before 8.0.18 MySQL listed only two transactions of a longer cycle.
        """
        for position, waiter in enumerate(self.transactions):
            lock = waiter.waits_for
            if lock is None:
                continue
            others = self.transactions[position + 1 :] + self.transactions[:position]
            unlisted = [held for held in self.other_locks if held.overlaps(lock)]
            holder, held = next(((other, held) for other in others for held in other.holds if held.overlaps(lock)), (None, None))
            if holder is None and unlisted:
                held = unlisted[0]
            elif holder is None and others and style_of(self.server).lists_in_order:
                holder = others[0]
            yield Wait(waiter=waiter, lock=lock, holder=holder, held=held, unlisted=len(unlisted))

    def is_within(self, database: str) -> bool:
        """Whether InnoDB says of each transaction that its locks are on tables of ``database``: its statement may else have values of other databases."""

        def is_there(locks: Sequence[Lock]) -> bool:
            return bool(locks) and all(lock.table.rpartition(".")[0] == database for lock in locks)

        transactions = [((one.waits_for,) if one.waits_for else ()) + one.holds for one in self.transactions]
        return "." not in database and all(map(is_there, transactions)) and (not self.other_locks or is_there(self.other_locks))

    def without_values(self, syntax: LiteralSyntax) -> Deadlock:
        """Return it without the values of statements and keys, and without the server's text, which has them, too."""

        def hide(lock: Lock) -> Lock:
            return replace(lock, keys=("?",) * len(lock.keys))

        return replace(
            self,
            transactions=tuple(
                replace(
                    one,
                    sql=hide_literals(one.sql, syntax),
                    waits_for=hide(one.waits_for) if one.waits_for else None,
                    holds=tuple(map(hide, one.holds)),
                )
                for one in self.transactions
            ),
            other_locks=tuple(map(hide, self.other_locks)),
            text="",
        )

    def to_json(self) -> str:
        """Return everything on one line."""
        return _ADAPTER.dump_json(self).decode()

    @classmethod
    def from_json(cls, text: str) -> Deadlock:
        """Return what `to_json` made; raises `ValueError` for anything else."""
        return _ADAPTER.validate_json(text)

    def to_sample_value(self) -> str:
        """Return everything as the value of a sample: zlib's compression of `to_json` in URL-safe base64.

        A sample file has neither quotes nor escapes; it replaces commas, quotes and line breaks, which are frequent in SQL. Base64
        contains none of these. Compressed, a listing takes one or two kilobytes.
        """
        return base64.urlsafe_b64encode(zlib.compress(self.to_json().encode())).decode()

    @classmethod
    def from_sample_value(cls, value: str) -> Deadlock:
        """Return what `to_sample_value` made; raises `ValueError` when it is torn or something else."""
        try:
            return cls.from_json(zlib.decompress(base64.urlsafe_b64decode(value)).decode())
        except zlib.error as error:
            raise ValueError(f"not a deadlock's value: {error}") from error


_ADAPTER: TypeAdapter[Deadlock] = TypeAdapter(Deadlock)


def shape_of(sql: str, server: str = "") -> str:
    """Return a statement with its constants as ``?`` and without quotes around names, so that statements can be compared."""
    constants = style_of(server).hide_strings(sql)
    lists = _LIST.sub("(?, ...)", _NUMBER.sub("?", constants))
    return " ".join(_LISTS.sub("(?, ...), ...", lists).split())
