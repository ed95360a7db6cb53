"""Reads PostgreSQL's reports of deadlocks from the text log of a server that the bench started.

A report is one message: ``ERROR:  deadlock detected``, and a DETAIL that first has one line for each process (which lock it waits for, and which
process blocks it), then one statement for each process, of one or more lines. The session that writes the message is the one that is rolled back.
Every line of a message after the first of each part begins with a tab, and each part with the server's ``log_line_prefix``, which is that of
`stallbench.engines.postgres.server.BENCH_SETTINGS`.

The DETAIL has no names of tables: `name_parts` adds them, from the catalogue. Who waits for a row waits for the end of the transaction that wrote
it. Of these waits only that of the session that was rolled back has its table and row, in the CONTEXT of the message.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from stallbench.engines.deadlocks.deadlock import Deadlock, Lock, LockKind, Transaction

_BEGIN = re.compile(
    r"(?P<when>\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{3}) \S+ \[(?P<pid>\d{1,9})\] (?P<application>.*?) ?"
    r"(?P<part>DEBUG|INFO|NOTICE|WARNING|LOG|ERROR|FATAL|PANIC|DETAIL|HINT|QUERY|CONTEXT|LOCATION|STATEMENT|BACKTRACE):  (?P<text>.*)"
)
_DEADLOCK = re.compile(r"(?:40P01: )?deadlock detected(?: at character \d+)?")
_CONTINUED = frozenset({"DETAIL", "HINT", "QUERY", "CONTEXT", "LOCATION", "STATEMENT", "BACKTRACE"})
_WAIT = re.compile(r"Process (?P<pid>\d{1,9}) waits for (?P<mode>\w+) on (?P<what>.+); blocked by process \d{1,9}\.")
_NO_STATEMENT = re.compile(r"<[a-z ]+>")
"""What the server writes instead of a statement, like ``<command string not enabled>``."""
_ROW = re.compile(r'while .*?(?P<row>tuple \(\d+,\d+\)) in relation "(?P<relation>.+)"')
_KINDS: Mapping[str, LockKind] = {
    "relation": "table",
    "transaction": "transaction",
    "speculative": "transaction",
    "virtual": "virtual transaction",
    "tuple": "tuple",
    "page": "page",
    "extension": "extension",
    "advisory": "advisory",
}
"""By the first word of what is locked, as the server's function ``DescribeLockTag`` writes it."""
_RELATION = re.compile(r"relation (?P<relation>\d+) of database \d+")
_BIGINT_KEY = "1"
"""The last number of an advisory lock: its key is one bigint, and not two integers."""
_LONGEST_STATEMENT = 3_000
"""Characters of a statement that are kept, as many as InnoDB lists; the line STATEMENT has all of it, which can be megabytes."""
_LONGEST_TEXT = 20_000


@dataclass(slots=True)
class _Message:
    """A message about a deadlock, as far as it has been read."""

    when: str
    pid: int
    application: str
    parts: dict[str, list[str]] = field(default_factory=dict)
    """Its lines, without the prefix or the tab, by the part that they belong to."""
    text: list[str] = field(default_factory=list)
    last_part: str = ""

    def begin(self, part: str, line: str, text: str) -> None:
        self.last_part = part
        self.parts[part] = [text]
        self.text.append(line)

    def go_on(self, line: str) -> None:
        self.parts[self.last_part].append(line.removeprefix("\t"))
        self.text.append(line)


class DeadlockLog:
    """Finds deadlocks in a log that grows."""

    def __init__(self) -> None:
        """Begin at the start of a log."""
        self._message: _Message | None = None

    def read(self, lines: Sequence[str]) -> Iterator[Deadlock]:
        """Yield the deadlocks that are complete with the next ``lines`` of the log; without lines, also one that still had no STATEMENT."""
        for line in lines:
            message = self._message
            begin = _BEGIN.fullmatch(line)
            if begin is None:
                if message and line.startswith("\t"):
                    message.go_on(line)
                continue
            if message and begin["part"] in _CONTINUED and int(begin["pid"]) == message.pid:
                message.begin(begin["part"], line, begin["text"])
                continue
            yield from self._end_message()
            if begin["part"] == "ERROR" and _DEADLOCK.fullmatch(begin["text"]):
                self._message = _Message(begin["when"], int(begin["pid"]), begin["application"])
                self._message.begin("ERROR", line, begin["text"])
        # The server writes STATEMENT last. A report at the end of the log has no line after it that would show where it ends.
        if self._message and ("STATEMENT" in self._message.parts or not lines):
            yield from self._end_message()

    def _end_message(self) -> Iterator[Deadlock]:
        if self._message:
            yield _read_message(self._message)
        self._message = None


def _read_message(message: _Message) -> Deadlock:
    detail = message.parts.get("DETAIL", [])
    waits = [wait for line in detail if (wait := _WAIT.fullmatch(line))]
    pids = [int(wait["pid"]) for wait in waits] or [message.pid]
    statements = _read_statements(detail[len(waits) :], pids)
    victim = message.pid if message.pid in pids else pids[0]  # a parallel worker is listed as its leader
    transactions = []
    for number, pid in enumerate(pids, start=1):
        is_victim = pid == victim
        lock = _read_lock(waits[number - 1], message.parts.get("CONTEXT", []) if is_victim else []) if waits else None
        sql, is_cut_off = _choose_statement(statements.get(pid, ""), message.parts.get("STATEMENT", []) if is_victim else [])
        transactions.append(
            Transaction(
                number=number,
                transaction_id=_find_transaction_id(waits, number - 1),
                thread_id=pid,
                application=message.application if is_victim else "",
                sql=sql,
                is_cut_off=is_cut_off,
                waits_for=lock,
                rolled_back=is_victim,
            )
        )
    text = "\n".join(message.text)
    return Deadlock(
        when=message.when,
        server="postgres",
        transactions=tuple(transactions),
        victim_by="server",
        text=text if len(text) <= _LONGEST_TEXT else f"{text[:_LONGEST_TEXT]}\n(the rest of the message is left out here)",
    )


def _read_statements(lines: Iterable[str], pids: Iterable[int]) -> dict[int, str]:
    """Return the statement of each process; they follow one another in the order of ``pids``, so a line of a statement is not taken for the next one."""
    left = list(pids)
    statements: dict[int, list[str]] = {}
    pid = 0
    for line in lines:
        if left and line.startswith(f"Process {left[0]}: "):
            pid = left.pop(0)
            statements[pid] = [line.removeprefix(f"Process {pid}: ")]
        elif pid:
            statements[pid].append(line)
    joined = {pid: "\n".join(statement).strip() for pid, statement in statements.items()}
    return {pid: "" if _NO_STATEMENT.fullmatch(sql) else sql for pid, sql in joined.items()}


def _choose_statement(listed: str, logged: Sequence[str]) -> tuple[str, bool]:
    """Return a statement, and whether the bench cut it off. ``logged``: the whole statement, while the server cuts off the ``listed`` one."""
    sql = max(listed, "\n".join(logged).strip(), key=len)
    return sql[:_LONGEST_STATEMENT], len(sql) > _LONGEST_STATEMENT


def _find_transaction_id(waits: Sequence[re.Match[str]], place: int) -> str:
    """Return the id of the transaction at ``place``, if the one before it, which it blocks, waits for its end; else empty."""
    if not waits:
        return ""
    kind, _, transaction_id = waits[place - 1]["what"].partition(" ")
    return transaction_id if kind == "transaction" else ""


def _read_lock(wait: re.Match[str], context: Sequence[str]) -> Lock:
    """Return the lock that a process waits for. ``context``: what the server was doing for it, if the message says so."""
    what = wait["what"]
    words = what.split()
    kind = _KINDS.get(words[0], "")
    relation = _RELATION.search(what)
    table = relation.group() if relation else "" if kind else what
    keys: tuple[str, ...] = ()
    if kind == "tuple":
        keys = (" ".join(words[:2]),)
    elif kind == "advisory":
        keys = (_read_advisory_key(what),)
    elif kind == "transaction" and context and (row := _ROW.fullmatch(context[0])):
        table, keys = row["relation"], (row["row"],)
    transaction_id = words[-1] if kind == "transaction" else ""
    return Lock(table=table, index="", mode=wait["mode"], kind=kind, transaction_id=transaction_id, keys=keys)


def _read_advisory_key(what: str) -> str:
    """Return the key of ``advisory lock [16384,0,42,1]``: 42. The first number is the database, the next two are the key's halves."""
    numbers = what[what.find("[") + 1 : -1].split(",")
    if len(numbers) != 4 or not all(number.isdecimal() for number in numbers):
        return what
    _, high, low, form = numbers
    if form != _BIGINT_KEY:
        return f"key {high}, {low}"
    key = int(high) << 32 | int(low)
    return f"key {key - (1 << 64) if key >= 1 << 63 else key}"


def find_unnamed_relations(deadlock: Deadlock) -> set[int]:
    """Return the relations that the message has by number only."""
    tables = (t.waits_for.table for t in deadlock.transactions if t.waits_for)
    return {int(found["relation"]) for table in tables if (found := _RELATION.fullmatch(table))}


def name_parts(
    deadlock: Deadlock, *, relations: Mapping[str, str], applications: Mapping[int, str], cut_off_bytes: int | None
) -> Deadlock:
    """Return the deadlock with the names that the message does not have.

    ``relations``: the name of ``relation 16416 of database 16384``. ``applications``: the application name of each session, by its process.
    ``cut_off_bytes``: the server's ``track_activity_query_size``, from which on it cuts a statement off; none if not known.
    """

    def name(transaction: Transaction) -> Transaction:
        lock = transaction.waits_for
        return replace(
            transaction,
            application=transaction.application or applications.get(transaction.thread_id or 0, ""),
            waits_for=replace(lock, table=relations.get(lock.table, lock.table)) if lock else None,
            is_cut_off=transaction.is_cut_off or _was_cut_off(transaction, cut_off_bytes),
        )

    return replace(deadlock, transactions=tuple(name(transaction) for transaction in deadlock.transactions))


def _was_cut_off(transaction: Transaction, cut_off_bytes: int | None) -> bool:
    """Whether the server cut the listed statement off, at the last whole character of at most 4 bytes; the victim's is in the log as a whole."""
    if cut_off_bytes is None or transaction.rolled_back:
        return False
    return cut_off_bytes - 4 <= len(transaction.sql.encode()) < cut_off_bytes
