"""A deadlock as the server describes it: which transaction held and waited for which lock, and which one was rolled back.

The server rolls back one transaction of the cycle. If that is the DELETE of a worker, the worker has done its job, but the job stays in the table and
is re-executed. The listing has the statement that was rolled back.
"""

from __future__ import annotations

import base64
import re
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from pydantic import TypeAdapter

Server = Literal["mariadb", "mysql", ""]
"""The server that wrote the listing, as the listing says; empty if it does not say."""

LockKind = Literal["rec but not gap", "gap", "next-key", "insert intention", "table", ""]
"""``rec but not gap``: the index entry alone. ``gap``: the space before an entry, or behind the last one. ``next-key``: both,
which is what a locking read takes under REPEATABLE READ. ``insert intention``: asks for a gap in order to insert. ``table``.
Empty: the text did not say."""

_STRING = re.compile(r"'(?:[^'\\]|\\.|'')*'" + r'|"(?:[^"\\]|\\.|"")*"')
_NUMBER = re.compile(r"(?<![\w`.])-?\d+(?:\.\d+)?\b")
_LIST = re.compile(r"\(\s*\?(?:\s*,\s*\?)+\s*\)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Lock:
    """A lock on entries of an index, or on a table."""

    table: str
    """With its database, unquoted: ``bench.jobs``; a partition follows a ``#``."""
    index: str
    """Empty for a lock on the table."""
    mode: str
    """``X``, ``S``, ``IX``, ``IS``, ``AUTO-INC``; empty when the text did not say."""
    kind: LockKind
    transaction_id: str
    """The transaction that holds it or waits for it; ``0`` for a transaction that has only read so far."""
    space: int | None = None
    page: int | None = None
    heap_nos: tuple[int, ...] = ()
    """Entries on that page, by the number the server gives them; 1 is the end of the index."""
    keys: tuple[str, ...] = ()
    """The readable content of those entries, one for each of `heap_nos`: ``default, 209``."""

    @property
    def target(self) -> str:
        """What is locked: table and index without the database, ``jobs.PRIMARY``, or ``jobs`` alone."""
        table = self.table.rpartition(".")[2]
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
    """The connection's id: what ``CONNECTION_ID()`` returns, so that a worker can be named by it."""
    query_id: int | None = None
    user: str = ""
    host: str = ""
    state: str = ""
    """What the server was doing for it: ``Updating``, ``Sending data``."""
    sql: str = ""
    """The statement that waited, cut off by the server at 3000 bytes. The earlier statements, which took the locks, are not listed."""
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
    """As the server wrote it, in its own time zone: ``2026-11-21 02:03:14``."""
    server: Server
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

        Both servers list the transactions in the order in which each waits for the next, and the last for the first. If no
        blocking lock is listed, the holder follows from this order on MariaDB, but not on MySQL: before 8.0.18 MySQL listed only
        two transactions of a longer cycle.
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
            elif holder is None and others and self.server == "mariadb":
                holder = others[0]
            yield Wait(waiter=waiter, lock=lock, holder=holder, held=held, unlisted=len(unlisted))

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


def shape_of(sql: str) -> str:
    """Return a statement with its constants as ``?`` and without quotes around names, so that statements can be compared."""
    constants = _NUMBER.sub("?", _STRING.sub("?", sql)).replace("`", "")
    return " ".join(_LIST.sub("(?, ...)", constants).split())
