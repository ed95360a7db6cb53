"""The sources of the bench's queues, and the mutants that are made of them."""

from __future__ import annotations

import ast
import hashlib
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from itertools import zip_longest
from pathlib import Path

from stallbench import PROJECT
from tools.mutants.edit import Edit
from tools.mutants.python_operators import PYTHON_OPERATORS, Module, Shape
from tools.mutants.sql_operators import SQL_OPERATORS
from tools.mutants.sql_tokens import Statement

FOLDER = PROJECT / "stallbench" / "queues"
_HEADING = re.compile(r"^-- name: (\w+)$", re.MULTILINE)
_COPIED = re.compile(r"\bCOPY\b")
_OF_INDEXES = re.compile(r"\s*CREATE INDEX")
_NOT_OPERATIONS = frozenset(
    {"find_option_issue", "count_advisory_locks", "has_scheduler", "explain", "introduce", "observe_answers"}
    | {
        "add_other_jobs",
        "count_other_jobs",
        "remove_other_jobs",
        "add_ready",
        "add_failed",
        "add_future",
        "count_other",
        "remove_other",
    }
)
"""Functions and statements that say something of a queue to the bench, or prepare a load: no promise is about them."""
_DIGEST = 12


_OF_LARAVEL = frozenset({"a worker whose claim has expired takes nothing from the next one"})
"""A late failure releases the job, whoever has it by then."""


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueSource:
    """A queue whose mutants are made."""

    kind: str
    class_name: str
    files: tuple[str, ...]
    """Those that are mutated, the one with the class first."""
    options: tuple[Mapping[str, object], ...] = field(default=({},))
    """Each mutant is tried with the first of these that reach it, and with the next ones if it survives."""
    is_sound: bool = True
    """Whether it keeps its promises at every crash point; if not, they show nothing of its mutants."""
    broken: frozenset[str] = frozenset()
    """The promises of the operations that it breaks as it is: they show nothing of its mutants, either."""

    def read(self) -> dict[str, str]:
        """Return the text of its files. A file that imports another of them finds its copy."""
        modules = "|".join(Path(name).stem for name in self.files if name.endswith(".py"))
        imported = re.compile(rf"^from stallbench\.queues\.({modules}) import", re.MULTILINE)
        return {name: imported.sub(r"from \1 import", (FOLDER / name).read_text()) for name in self.files}


QUEUES: Mapping[str, QueueSource] = {
    each.kind: each
    for each in (
        QueueSource(
            kind="skip_locked",
            class_name="SkipLocked",
            files=("skip_locked.py", "skip_locked.sql"),
            options=({}, {"notify": True}, {"notify": True, "notification": "job"}, {"notify": True, "notification": "empty"}),
        ),
        QueueSource(
            kind="status_column",
            class_name="StatusColumn",
            files=("status_column.py", "status_column.sql"),
            options=({}, {"finish": "delete"}, {"retained": 250, "partition": 100}, {"parent": "referenced"}),
        ),
        QueueSource(
            kind="que", class_name="Que", files=("que.py", "que.sql"), options=({}, {"claim_after_last": True}, {"batch": 3})
        ),
        QueueSource(
            kind="batch_claim",
            class_name="BatchClaim",
            files=("batch_claim.py", "batch_claim.sql"),
            options=({"lock": "skip_locked"}, {"lock": "by_id", "batch": 3}),
        ),
        QueueSource(
            kind="shared_table",
            class_name="SharedTable",
            files=("shared_table.py", "shared_table.sql"),
            options=(
                {},
                {"claim": "round_robin"},
                {"claim": "all_queues"},
                {"claim": "limited", "limit": 100},
                {"claim": "strict"},
            ),
        ),
        QueueSource(
            kind="rotating_tables",
            class_name="RotatingTables",
            files=("rotating_tables.py", "rotating_tables.sql"),
            options=({}, {"rotate_after": 1}),
        ),
        QueueSource(
            kind="insert_only_log",
            class_name="InsertOnlyLog",
            files=("insert_only_log.py", "insert_only_log.sql"),
            options=({}, {"range": 3, "partition": 100, "ahead": 20}),
        ),
        QueueSource(
            kind="unique_jobs",
            class_name="UniqueJobs",
            files=("unique_jobs.py", "unique_jobs.sql"),
            options=({}, {"unique": "advisory_lock"}, {"unique": "error"}),
        ),
        QueueSource(
            kind="staged_jobs",
            class_name="StagedJobs",
            files=("staged_jobs.py", "staged_jobs.sql"),
            options=({}, {"stage": "in_one_statement"}),
        ),
        QueueSource(
            kind="laravel",
            class_name="Laravel",
            files=("laravel.py", "laravel_table.py", "laravel.sql"),
            options=({}, {"delete_mark": True}, {"tries": 3}),
            is_sound=False,
            broken=_OF_LARAVEL,
        ),
        QueueSource(
            kind="laravel_optimistic",
            class_name="LaravelOptimistic",
            files=("laravel_optimistic.py",),
            is_sound=False,
            broken=_OF_LARAVEL,
        ),
    )
}
"""The queues that run on PostgreSQL alone, or there too."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Mutant:
    """A queue that is wrong in one place."""

    id: str
    """Queue, place, operator and number, like ``que/lock_job/drop condition/2``."""
    queue: str
    file: str
    place: str
    """The statement, or the function."""
    operator: str
    lines: tuple[int, int]
    """Of its file: those that are changed."""
    before: str
    """The changed line as it was."""
    after: str
    texts: Mapping[str, str] = field(repr=False)
    """All files of the queue, one of them changed."""

    @property
    def digest(self) -> str:
        """What identifies the files: a result of other files is none of this mutant."""
        return hashlib.sha256("\0".join(f"{name}\0{text}" for name, text in sorted(self.texts.items())).encode()).hexdigest()[
            :_DIGEST
        ]

    def write(self, folder: Path) -> str:
        """Write the files into ``folder`` and return the kind of queue by which they are found."""
        return write_queue(QUEUES[self.queue], self.texts, folder)


@cache
def _strip_prose(name: str, text: str) -> str:
    """Return a file without comments, docstrings, descriptions and layout."""
    if name.endswith(".sql"):
        return "\n".join(
            " ".join(line.split()) for line in text.splitlines() if line.startswith("-- name:") or not line.startswith("--")
        )
    tree = ast.parse(text)
    for node in ast.walk(tree):
        if isinstance(node, ast.keyword) and node.arg == "description":
            node.value = ast.Constant("")
        body = getattr(node, "body", None)
        if isinstance(body, list):
            body[:] = [each for each in body if not (isinstance(each, ast.Expr) and isinstance(each.value, ast.Constant))] or [
                ast.Pass()
            ]
    return ast.unparse(ast.fix_missing_locations(tree))


def write_queue(source: QueueSource, texts: Mapping[str, str], folder: Path) -> str:
    """Write the files of a queue into ``folder`` and return the kind of queue by which they are found."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in texts.items():
        (folder / name).write_text(text)
    return f"{folder / source.files[0]}:{source.class_name}"


def make_mutants(source: QueueSource) -> list[Mutant]:
    """Return every mutant of a queue, each text once."""
    texts = source.read()
    sql = "\n".join(text for name, text in texts.items() if name.endswith(".sql"))
    statements = {name: _find_shape(text) for name, _, text in _list_statements(sql)}
    mutants: list[Mutant] = []
    seen = set()
    numbers: Counter[str] = Counter()
    for name, text in texts.items():
        found = _mutate_sql(text) if name.endswith(".sql") else _mutate_python(Module(text, statements))
        for operator, place, edit in found:
            changed = edit.apply(text)
            if changed in seen or changed == text or place in _NOT_OPERATIONS:
                continue
            seen.add(changed)
            label = f"{source.kind}/{place}/{operator}"
            numbers[label] += 1
            first, last = text.count("\n", 0, edit.start), text.count("\n", 0, max(edit.start, edit.end - 1))
            grown = edit.replacement.count("\n") - text.count("\n", edit.start, edit.end)
            mutants.append(
                Mutant(
                    id=f"{label}/{numbers[label]}",
                    queue=source.kind,
                    file=name,
                    place=place,
                    operator=operator,
                    lines=(first + 1, last + 1),
                    before=_lines(text, first, last),
                    after=_lines(changed, first, last + grown),
                    texts={**texts, name: changed},
                )
            )
    return mutants


def _lines(text: str, first: int, last: int) -> str:
    return " ".join(" ".join(text.split("\n")[first : last + 1]).split())


def _find_shape(statement: str) -> Shape:
    return Shape(statement.split(maxsplit=1)[0].upper(), len(set(re.findall(r"\$\d+", statement))) or statement.count("?"))


def _list_statements(text: str) -> Iterator[tuple[str, int, str]]:
    """Yield name, place and text of each statement, the text without the comment lines at its beginning."""
    headings = list(_HEADING.finditer(text))
    for heading, following in zip_longest(headings, headings[1:]):
        start, end = heading.end(), following.start() if following else len(text)
        while text.startswith("\n", start) or text.startswith("--", start):
            start = text.index("\n", start) + 1 if text.startswith("--", start) else start + 1
        yield heading[1], start, text[start:end].rstrip()


def _mutate_sql(text: str) -> Iterator[tuple[str, str, Edit]]:
    for name, start, body in _list_statements(text):
        if not body or _COPIED.match(body) or _OF_INDEXES.match(body):
            continue  # nothing of these statements shows in what a queue does
        statement = Statement(body)
        for operator in SQL_OPERATORS.all.values():
            for edit in operator.find(statement):
                yield operator.name, name, Edit(start + edit.start, start + edit.end, edit.replacement)


def _mutate_python(module: Module) -> Iterator[tuple[str, str, Edit]]:
    functions = [(module.span(function), function.name) for function in module.functions()]
    for operator in PYTHON_OPERATORS.all.values():
        for edit in operator.find(module):
            place = next(name for (start, end), name in functions if start <= edit.start <= end)
            yield operator.name, place, edit


def in_drawn_order(mutants: Sequence[Mutant], seed: int) -> list[Mutant]:
    """Return the mutants in an order that the seed decides, so that the first ones are a sample of all."""
    return sorted(mutants, key=lambda mutant: hashlib.sha256(f"{seed} {mutant.id}".encode()).hexdigest())
