"""Reads the section LATEST DETECTED DEADLOCK of ``SHOW ENGINE INNODB STATUS``, and the same listing in a server's error log.

MySQL (8.0.18 and later) prints for each transaction the lock by which it blocks another transaction, and the lock that it waits for. Older
versions omit the lock that (1) holds. MariaDB (10.6 and later) prints the lock that a transaction waits for and, under CONFLICTING WITH, every
granted lock on that entry, including those of the waiter. The ``trx id`` of a lock says which transaction holds it. With
``innodb_deadlock_report=basic`` MariaDB prints no granted lock.

Only since 2026 does MariaDB print correctly which transaction it rolled back. Until 2022 it always printed ``(0)`` (MDEV-29187), then a number
that was off by one: in a cycle of two, that of the other transaction (MDEV-37977). The weights that it prints are therefore compared as
well. If they are equal, the printed number is used. On an old server this number may be wrong; then only the errors of the workers show
which transaction was rolled back.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Literal

from stallbench.engines.deadlocks.deadlock import Deadlock, Lock, Transaction
from stallbench.engines.innodb.deadlock_lines import LockLines, LockPart, TransactionLines

_HEADING = "LATEST DETECTED DEADLOCK"
_LOG_HEADING = "Transactions deadlock detected, dumping detailed information."
_LOG_PREFIX = re.compile(r"^\d{4}-\d\d-\d\d[T ]\s?\d{1,2}:\d\d:\d\d\S* \d+ \[\w+\] (?:\[MY-\d+\] \[InnoDB\] *|InnoDB: ?)")
_WHEN = re.compile(r"^(?:\d{4}-\d\d-\d\d|\d{6})[T\s]+\d{1,2}:\d\d:\d\d")
_RULE = re.compile(r"^[-=]{3,}$")
_TITLE = re.compile(r"^[A-Z][A-Z0-9/ ,-]+$")
_BEGIN = re.compile(r"^\*\*\* (?:\((?P<number>\d{1,9})\) )?TRANSACTION:")
_PART = re.compile(r"^\*\*\* (?:\((?P<number>\d{1,9})\) )?(?P<part>HOLDS|WAITING FOR|CONFLICTING WITH)")
_PARTS: dict[str, LockPart] = {"HOLDS": "holds", "WAITING FOR": "waits", "CONFLICTING WITH": "conflicts"}
_VICTIM = re.compile(r"^\*\*\* WE ROLL BACK TRANSACTION \((?P<number>\d{1,9})\)")
_TOO_DEEP = "TOO DEEP OR LONG SEARCH"
_MOST_SHOWN = 3
"""How many entries of one lock are kept in the text: a read through an index locks hundreds, and the server prints each with all columns."""
_LEFT_OUT = "(more entries of this lock are left out here)"


def parse_deadlock(status: str) -> Deadlock | None:
    """Return the deadlock that ``status`` describes, or None when it has no such section, or a statement in it imitates one.

    What cannot be parsed is left out. A truncated text yields what it contains.
    """
    if [line.strip() for line in status.splitlines()].count(_HEADING) > 1:
        return None
    return next(find_deadlocks(status), None)


def find_deadlocks(text: str) -> Iterator[Deadlock]:
    """Go through all deadlocks of a status, or of an error log with ``innodb_print_all_deadlocks``, in their order.

    A status has only the latest deadlock. If there are several per second, only the log has the others.
    """
    listing: _Listing | None = None
    lines = text.encode(errors="replace").decode().split("\n")  # JSON cannot represent half a surrogate pair
    for place, raw in enumerate(lines):
        line = _LOG_PREFIX.sub("", raw).rstrip()
        logged = len(line) < len(raw.rstrip())
        if line.strip() in (_HEADING, _LOG_HEADING):
            if listing is not None:
                yield listing.deadlock()
            listing = _Listing()
            if logged:
                listing.take(raw)
        elif listing is None or (logged and line and not line.startswith("***")):
            continue  # before the listing, or a line of another session in the log
        elif _begins_section(lines[place : place + 3]):
            yield listing.deadlock()
            listing = None
        else:
            listing.take(line)
            if _VICTIM.match(line):
                yield listing.deadlock()
                listing = None
    if listing is not None:
        yield listing.deadlock()


def _begins_section(lines: Sequence[str]) -> bool:
    """Whether these are the three lines that begin a section of the status: a rule, a title, a rule."""
    if len(lines) < 3:
        return False
    above, title, below = (line.strip() for line in lines)
    return bool(_RULE.match(above) and _TITLE.match(title) and _RULE.match(below))


class _Listing:
    """Reads one listing, line after line."""

    def __init__(self) -> None:
        self._when = ""
        self._transactions: list[TransactionLines] = []
        self._locks: list[LockLines] = []
        self._number = 0
        self._part: LockPart | None = None
        self._said: int | None = None
        self._too_deep = False
        self._text: list[str] = []

    def take(self, line: str) -> None:
        """Read one line; a line that cannot be parsed changes nothing."""
        if self._part and self._locks and (self._locks[-1].take(line) or not line):
            self._keep_entry(line)
            return
        self._text.append(line)
        if begin := _BEGIN.match(line):
            self._number = int(begin["number"] or len(self._transactions) + 1)
            self._transactions.append(TransactionLines(self._number))
            self._part = None
        elif heading := _PART.match(line):
            self._number = int(heading["number"] or self._number)
            self._part = _PARTS[heading["part"]]
        elif victim := _VICTIM.match(line):
            self._said = int(victim["number"])
        elif _TOO_DEEP in line:
            self._too_deep = True
        elif self._part:
            if lock := LockLines.begin(line, self._number, self._part):
                self._locks.append(lock)
        elif self._transactions:
            self._transactions[-1].take(line)
        elif not self._when and (when := _WHEN.match(line.strip())):
            self._when = " ".join(when.group().replace("T", " ").split())

    def _keep_entry(self, line: str) -> None:
        """Keep a line about an entry in the text, unless the text already has enough entries of this lock."""
        if len(self._locks[-1].entries) <= _MOST_SHOWN:
            self._text.append(line)
        elif self._text[-1] != _LEFT_OUT:
            self._text.append(_LEFT_OUT)

    def deadlock(self) -> Deadlock:
        """Return what has been read."""
        granted, unlisted = self._granted()
        transactions = [
            Transaction(
                number=lines.number,
                transaction_id=lines.transaction_id,
                thread_id=lines.thread_id,
                query_id=lines.query_id,
                user=lines.user,
                host=lines.host,
                state=lines.state,
                sql="\n".join(lines.statement).strip(),
                waits_for=next((k.lock() for k in self._locks if k.part == "waits" and k.number == lines.number), None),
                holds=tuple(granted.get(lines.number, ())),
                lock_structs=lines.lock_structs,
                undo_entries=lines.undo_entries,
            )
            for lines in self._transactions
        ]
        server = next((lines.server for lines in self._transactions if lines.server), "")
        victim, by = self._find_victim(transactions, server)
        return Deadlock(
            when=self._when,
            server=server,
            transactions=tuple(replace(t, rolled_back=t.number == victim) for t in transactions),
            other_locks=tuple(unlisted),
            too_deep=self._too_deep,
            victim_said=self._said,
            victim_by=by,
            text="\n".join(self._text).strip(),
        )

    def _granted(self) -> tuple[dict[int, list[Lock]], list[Lock]]:
        """Return the granted locks by the number of their transaction, and those of transactions that are not listed."""
        numbers = {lines.transaction_id: lines.number for lines in self._transactions if lines.transaction_id}
        granted: dict[int, list[Lock]] = {}
        unlisted: list[Lock] = []
        for lines in self._locks:
            if lines.part == "waits":
                continue
            lock = lines.lock()
            number = numbers.get(lock.transaction_id, lines.number if lines.part == "holds" else 0)
            whose = granted.setdefault(number, []) if number else unlisted
            if lock not in whose:  # MariaDB prints a lock once for each transaction that it blocks
                whose.append(lock)
        return granted, unlisted

    def _find_victim(self, transactions: Sequence[Transaction], server: str) -> tuple[int, Literal["server", "weight", ""]]:
        """Return the number of the transaction that was rolled back, 0 if unknown, and who says so."""
        if self._too_deep and len(transactions) == 1:
            return transactions[0].number, "server"
        said = self._said or 0
        weights = {t.number: t.weight for t in transactions if t.weight is not None}
        if server != "mariadb" or self._said is None or not weights or len(weights) < len(transactions):
            return said, "server" if said else ""
        least = min(weights.values())
        lightest = [number for number, weight in weights.items() if weight == least]
        if said in lightest:
            return said, "server"
        return (lightest[0], "weight") if len(lightest) == 1 else (0, "")
