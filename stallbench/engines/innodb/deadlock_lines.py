"""Parses single lines of InnoDB's deadlock listing: about a transaction, a lock, and the index entries that it locks."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Literal, Self

from stallbench.engines.deadlocks.deadlock import Lock, LockKind

_ID = re.compile(r"^TRANSACTION \(?(?P<id>\w+)\)?")
_WEIGHT = re.compile(r"(?P<structs>\d{1,20}) lock struct\(s\)(?:.*undo log entries (?P<undo>\d{1,20}))?")
_THREAD = re.compile(r"^(?P<server>MySQL|MariaDB) thread id (?P<thread>\d{1,20})(?:.*?query id (?P<query>\d{1,20})(?P<who>.*))?")
_RECORD_LOCKS = re.compile(
    r"^RECORD LOCKS space id (?P<space>\d{1,20}) page no (?P<page>\d{1,20})(?: n bits \d{1,20})? index (?P<index>.+?) of table (?P<table>.+?)"
    r" trx id (?P<trx>\w+)(?: lock[ _]mode (?P<mode>[\w-]+)(?P<rest>.*))?"
)
_TABLE_LOCK = re.compile(r"^TABLE LOCK table (?P<table>.+?) trx id (?P<trx>\w+)(?: lock[ _]mode (?P<mode>[\w-]+))?")
_ENTRY = re.compile(r"^\s*Record lock, heap no (?P<heap_no>\d{1,20})")
_FIELD = re.compile(r"^\s*\d+: (?:len[ =]\d+;.*?hex[ =]\s*(?P<hex>[0-9a-f]*);|SQL NULL)")
_QUOTED = re.compile(r"`((?:[^`]|``)*)`")
_CLUSTERED = ("PRIMARY", "GEN_CLUST_INDEX")
_SUPREMUM = 1
_TRANSACTION_ID_BYTES = 6
_ROLL_POINTER_BYTES = 7
_MOST_FIELDS = 4
_MOST_CHARACTERS = 40

LockPart = Literal["holds", "waits", "conflicts"]
"""The heading under which a lock is listed."""


@dataclass(slots=True)
class TransactionLines:
    """What has been read about one transaction."""

    number: int
    transaction_id: str = ""
    lock_structs: int | None = None
    undo_entries: int | None = None
    server: str = ""
    thread_id: int | None = None
    query_id: int | None = None
    host: str = ""
    user: str = ""
    state: str = ""
    statement: list[str] = field(default_factory=list)

    def take(self, line: str) -> None:
        """Read one line. All lines after the one that names the thread belong to the statement."""
        if self.thread_id is not None:
            self.statement.append(line)
        elif thread := _THREAD.match(line):
            self.server = "mariadb" if thread["server"] == "MariaDB" else "mysql"
            self.thread_id = int(thread["thread"])
            self.query_id = int(thread["query"]) if thread["query"] else None
            self.host, self.user, self.state = _read_who(thread["who"] or "")
        elif identity := _ID.match(line):
            self.transaction_id = identity["id"]
        elif weight := _WEIGHT.search(line):
            self.lock_structs = int(weight["structs"])
            self.undo_entries = int(weight["undo"] or 0)


def _read_who(text: str) -> tuple[str, str, str]:
    """Return host, user and state of ``localhost 127.0.0.1 worker Sending data``, in which the address may be missing."""
    words = text.split()
    host = words.pop(0) if words else ""
    if len(words) > 1 and _is_address(words[0]):
        words.pop(0)
    user = words.pop(0) if words else ""
    return host, user, " ".join(words)


def _is_address(word: str) -> bool:
    try:
        ipaddress.ip_address(word)
    except ValueError:
        return False
    return True


@dataclass(slots=True)
class _Entry:
    heap_no: int
    fields: list[bytes | None] = field(default_factory=list)


@dataclass(slots=True)
class LockLines:
    """What has been read about one lock."""

    number: int
    """The transaction under which it is listed."""
    part: LockPart
    table: str
    index: str
    mode: str
    flags: str
    transaction_id: str
    space: int | None = None
    page: int | None = None
    entries: list[_Entry] = field(default_factory=list)

    @classmethod
    def begin(cls, line: str, number: int, part: LockPart) -> Self | None:
        """Return the lock that ``line`` begins, or None."""
        if record := _RECORD_LOCKS.match(line):
            return cls(
                number=number,
                part=part,
                table=_unquote(record["table"]),
                index=_unquote(record["index"]),
                mode=record["mode"] or "",
                flags=record["rest"] or "",
                transaction_id=record["trx"],
                space=int(record["space"]),
                page=int(record["page"]),
            )
        if table := _TABLE_LOCK.match(line):
            name, mode, transaction_id = _unquote(table["table"]), table["mode"] or "", table["trx"]
            return cls(number, part, table=name, index="", mode=mode, flags="", transaction_id=transaction_id)
        return None

    def take(self, line: str) -> bool:
        """Read a line about an entry that it locks; return whether the line was one."""
        if entry := _ENTRY.match(line):
            self.entries.append(_Entry(int(entry["heap_no"])))
            return True
        if self.entries and (column := _FIELD.match(line)):
            self.entries[-1].fields.append(_bytes_of(column["hex"]))
            return True
        return False

    def lock(self) -> Lock:
        """Return the lock."""
        return Lock(
            table=self.table,
            index=self.index,
            mode=self.mode,
            kind=self._kind(),
            transaction_id=self.transaction_id,
            space=self.space,
            page=self.page,
            heap_nos=tuple(entry.heap_no for entry in self.entries),
            keys=tuple(_key_of(entry, clustered=self.index in _CLUSTERED) for entry in self.entries),
        )

    def _kind(self) -> LockKind:
        if not self.index:
            return "table"
        if "insert intention" in self.flags:
            return "insert intention"
        if "rec but not gap" in self.flags:
            return "rec but not gap"
        # On the end of the index there is no entry to lock: the server says next-key, and means the gap before it.
        if "gap before rec" in self.flags or {entry.heap_no for entry in self.entries} == {_SUPREMUM}:
            return "gap"
        return "next-key" if self.mode and self.flags.strip() in {"", "waiting"} else ""


def _unquote(name: str) -> str:
    """Return ```bench`.`jobs` /* Partition `p0` */`` as ``bench.jobs#p0``."""
    quoted = [part.replace("``", "`") for part in _QUOTED.findall(name)]
    if not quoted:
        return name.strip().strip("`")
    names = ".".join(quoted[:2])
    return "#".join([names, *quoted[2:]])


def _bytes_of(digits: str | None) -> bytes | None:
    """Return a column's bytes, None for NULL; a torn line may end within a byte."""
    return None if digits is None else bytes.fromhex(digits[: len(digits) // 2 * 2])


def _key_of(entry: _Entry, *, clustered: bool) -> str:
    """Return what identifies the entry: in the primary key the columns before the hidden ones, in other indexes all columns."""
    if entry.heap_no == _SUPREMUM:
        return "end of index"
    fields = list(_fields_before_hidden(entry.fields)) if clustered else entry.fields
    return ", ".join(_readable(value) for value in fields[:_MOST_FIELDS])


def _fields_before_hidden(fields: list[bytes | None]) -> Iterator[bytes | None]:
    """Go through the columns up to the transaction's id and the roll pointer, which follow the key."""
    for place, value in enumerate(fields):
        following = fields[place + 1] if place + 1 < len(fields) else None
        if _length(value) == _TRANSACTION_ID_BYTES and _length(following) == _ROLL_POINTER_BYTES:
            return
        yield value


def _length(value: bytes | None) -> int:
    return -1 if value is None else len(value)


def _readable(value: bytes | None) -> str:
    """Return a column's value as text or number; the listing has no types, so the type is guessed from the bytes.

    InnoDB stores a signed integer with its sign bit inverted: 1 is 80000001. An unsigned one beyond half its range is read as signed.
    """
    if value is None:
        return "NULL"
    text = value.decode("utf-8", errors="replace")
    if text.isprintable() and "\ufffd" not in text:
        return text if len(text) <= _MOST_CHARACTERS else text[: _MOST_CHARACTERS - 1] + "…"
    if len(value) in {1, 2, 3, 4, 8}:
        number = int.from_bytes(value)
        half = 1 << (8 * len(value) - 1)
        return str(number - half if number >= half else number)
    return "0x" + value.hex()[:_MOST_CHARACTERS]
