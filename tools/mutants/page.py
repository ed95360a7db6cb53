"""Writes what was found into docs/results/mutants.md, and the detection rate into docs/conform.md."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from stallbench import PROJECT
from tools.mutants import results
from tools.mutants.equivalence import read_equivalent
from tools.mutants.python_operators import PYTHON_OPERATORS
from tools.mutants.sources import QUEUES, Mutant, make_mutants
from tools.mutants.sql_operators import SQL_OPERATORS
from tools.mutants.trials import digest_trials

PAGE = PROJECT / "docs" / "results" / "mutants.md"
CONFORM = PROJECT / "docs" / "conform.md"
BEGIN, END = "<!-- mutants: begin, made by python -m tools.mutants page -->", "<!-- mutants: end -->"
_OPERATORS = {each.name: each.meaning for each in SQL_OPERATORS.all.values()} | {
    each.name: each.meaning for each in PYTHON_OPERATORS.all.values()
}
_STATES = ("killed", "equivalent", "survived", "not reached", "stillborn", "not tried")


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """A mutant, and what became of it."""

    mutant: Mutant
    state: str
    """One of `_STATES`."""
    by: str
    """What killed it."""
    is_quick: bool = False
    """Whether promises that use threads or processes were left out."""
    at_crash_points: str = ""
    """What the crash points said, if they were tried."""


def judge_rows(mutants: Iterable[Mutant], records: Sequence[Mapping[str, Any]], equivalent: Mapping[str, str]) -> list[Row]:
    """Return a row for each mutant. Results of other texts than today's do not count. Raises `ValueError` if one that is declared equivalent was killed."""
    operations, crashes = results.latest(records, "operations"), results.latest(records, "crash points")
    rows = []
    for mutant in mutants:
        of_operations = _of(operations, mutant)
        of_crashes = _of(crashes, mutant)
        result = of_operations["result"] if of_operations else "not tried"
        state = {"unreached": "not reached"}.get(result, result)
        by = str(of_operations["by"]) if of_operations else ""
        said = str(of_crashes["result"]) if of_crashes else ""
        if state in ("survived", "not reached") and said == "killed":
            assert of_crashes is not None
            state, by = "killed", str(of_crashes["by"])
        if mutant.id in equivalent:
            if state == "killed":
                raise ValueError(f"{mutant.id} is declared equivalent, but was killed by: {by}")
            state = "equivalent" if state in ("survived", "not reached") else state
        is_quick = of_operations is not None and "quick" in str(of_operations["trials"])
        rows.append(Row(mutant=mutant, state=state, by=by, is_quick=is_quick, at_crash_points=said))
    return rows


def _of(records: Mapping[str, Mapping[str, Any]], mutant: Mutant) -> Mapping[str, Any] | None:
    record = records.get(mutant.id)
    return record if record and record["digest"] == mutant.digest else None


def describe_rate(rows: Sequence[Row]) -> str:
    """Return the detection rate: of the mutants that were tried, without stillborn and equivalent ones."""
    states = Counter(row.state for row in rows)
    wrong = states["killed"] + states["survived"] + states["not reached"]
    return f"{states['killed']:,} of {wrong:,} ({100 * states['killed'] / wrong:.1f} %)" if wrong else "none of none"


def write_page(records: Sequence[Mapping[str, Any]]) -> None:
    """Write both pages; raises `ValueError` if one has no markers."""
    equivalent = read_equivalent()
    rows = judge_rows([mutant for source in QUEUES.values() for mutant in make_mutants(source)], records, equivalent)
    _replace(PAGE, "\n\n".join(_sections(rows, records, equivalent)))
    rate = describe_rate(rows)
    queues = len({row.mutant.queue for row in rows if row.state != "not tried"})
    _replace(
        CONFORM,
        f"Of mutants of {queues} of the bench's own queues, each wrong in one place, `conform` finds {rate}: [how this was measured, and which it "
        "does not find](results/mutants.md).",
    )
    print(f"{rate} are found: {PAGE.relative_to(PROJECT)}")


def _replace(path: Path, text: str) -> None:
    page = path.read_text(encoding="utf-8")
    before, begin, rest = page.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"{path} has no markers {BEGIN} and {END}")
    path.write_text(f"{before}{begin}\n\n{text}\n\n{end}{after}", encoding="utf-8")


def _sections(rows: Sequence[Row], records: Sequence[Mapping[str, Any]], equivalent: Mapping[str, str]) -> Iterable[str]:
    states = Counter(row.state for row in rows)
    tried = len(rows) - states["not tried"]
    crashes = sum(bool(row.at_crash_points) for row in rows)
    by_crashes = sum(row.at_crash_points == "killed" and row.state == "killed" for row in rows)
    operators = len({row.mutant.operator for row in rows if row.state != "not tried"})
    yield (
        f"**`conform` finds {describe_rate(rows)}** of the mutants that were tried and can be told from the queue. "
        f"{len(rows):,} mutants can be made by {len(_OPERATORS)} operators; {tried:,} were tried, of {operators} "
        f"operators. {states['stillborn']:,} of these are stillborn, {states['equivalent']:,} equivalent. The operations alone find "
        f"{states['killed'] - by_crashes:,}; the crash points, tried with {crashes:,} of those that survived, {by_crashes:,} more. "
        f"{states['survived'] + states['not reached']:,} are not found, of which {states['not reached']:,} change what no trial of the operations reaches. "
        f"Of those that are not found, {sum(row.is_quick and row.state in ('survived', 'not reached') for row in rows):,} were tried without the promises "
        "that use threads or processes, for lack of time."
    )
    yield _describe_timeouts(records, rows)
    yield _describe_sound(records)
    yield (
        "## Seeded defects\n\nThe queues of `tests/defective_queues` that run on PostgreSQL, each wrong in a way that was reported or thought of by "
        "somebody, with the operations alone.\n\n" + describe_seeded(records)
    )
    applications = {each["mutant"]: each for each in records if each["kind"] == "application"}
    yield (
        "## An application\n\nMutants of an application with its own worker (`tests/libraries/application`), as a user's code may be wrong, with the "
        "whole of `conform`: the bench cannot try single claims of it.\n\n"
        + _table(
            ("the application ...", "result", "by"),
            [(name, str(each["result"]), _cell(str(each["by"]))) for name, each in applications.items()],
        )
    )
    yield "## Operators\n\n" + _table(
        ("operator", "the mistake: the author ...", "mutants", *_STATES),
        [(name, meaning, *_counts([row for row in rows if row.mutant.operator == name])) for name, meaning in _OPERATORS.items()],
    )
    yield "## Queues\n\n" + _table(
        ("queue", "mutants", *_STATES),
        [(f"`{kind}`", *_counts([row for row in rows if row.mutant.queue == kind])) for kind in QUEUES],
    )
    killers = Counter(row.by for row in rows if row.state == "killed")
    yield "## What finds them\n\nThe first promise that is broken, in the order in which they are tried.\n\n" + _table(
        ("promise", "mutants"), [(_cell(name), f"{count:,}") for name, count in killers.most_common()]
    )
    yield "## Not found\n\n" + _table(
        ("mutant", "change", "threads and processes", "crash points"),
        [
            (
                f"`{row.mutant.id}`",
                _describe_change(row.mutant),
                "not tried" if row.is_quick else "survived",
                row.at_crash_points or "not tried",
            )
            for row in rows
            if row.state == "survived"
        ],
    )
    yield "## Not reached by the operations\n\n" + _table(
        ("mutant", "change", "threads and processes", "crash points"),
        [
            (
                f"`{row.mutant.id}`",
                _describe_change(row.mutant),
                "not tried" if row.is_quick else "survived",
                row.at_crash_points or "not tried",
            )
            for row in rows
            if row.state == "not reached"
        ],
    )
    of_argument: dict[str, list[Mutant]] = {}
    for row in rows:
        if row.state == "equivalent":
            of_argument.setdefault(equivalent[row.mutant.id], []).append(row.mutant)
    yield "## Equivalent\n\n" + _table(
        ("mutants", "why nobody can tell"),
        [("<br>".join(f"`{mutant.id}`" for mutant in mutants), _cell(why)) for why, mutants in of_argument.items()],
    )


def _describe_timeouts(records: Sequence[Mapping[str, Any]], rows: Sequence[Row]) -> str:
    """Say how many were killed by the clock alone: a machine that is busy could do that to a sound queue, too."""
    known = results.latest(records, "operations")
    killed = [known[row.mutant.id] for row in rows if row.state == "killed" and row.mutant.id in known]
    late = sum(record.get("timeout", False) for record in killed)
    return (
        f"Of those that are found, {len(killed) - late:,} break a promise by what they do: the reason names what was found and what was expected, or an "
        f"error. {late:,} did not end a trial in time, twice."
    )


def describe_seeded(records: Sequence[Mapping[str, Any]]) -> str:
    """Return the table of the seeded defects, of rounds with the trials of today."""
    rounds: dict[str, list[str]] = {}
    for record in records:
        if record["kind"] == "seeded" and record["trials"] == digest_trials():
            rounds.setdefault(record["defect"], []).append(record["by"])
    rows = []
    for name, found in sorted(rounds.items()):
        promises = Counter(by for by in found if by)
        rows.append((f"`{name}`", f"{sum(promises.values())} of {len(found)}", _cell("; ".join(promises))))
    return _table(("queue", "rounds in which it is found", "by"), rows)


def _describe_sound(records: Sequence[Mapping[str, Any]]) -> str:
    sound = [record for record in records if record["kind"] == "sound" and record["trials"] == digest_trials()]
    broken = sum(bool(record["broken"]) for record in sound)
    queues = len({record["queue"] for record in sound})
    return (
        f"**False alarms: {broken} in {len(sound):,} runs** of {queues} queues as they are, with the same options, through the same trials; "
        "a run is every promise of one queue with one set of options."
    )


def _counts(rows: Sequence[Row]) -> list[str]:
    states = Counter(row.state for row in rows)
    return [f"{len(rows):,}", *(f"{states[state]:,}" for state in _STATES)]


def _describe_change(mutant: Mutant) -> str:
    """Return what differs in a line, with a little around it."""
    before, after = mutant.before, mutant.after
    start = 0
    while start < min(len(before), len(after)) and before[start] == after[start]:
        start += 1
    end = 0
    while end < min(len(before), len(after)) - start and before[-1 - end] == after[-1 - end]:
        end += 1
    start, end = max(0, start - 25), max(0, end - 25)
    return f"{_code(before[start : len(before) - end])} → {_code(after[start : len(after) - end])}"


def _code(text: str) -> str:
    text = " ".join(text.split()).replace("|", "\\|")
    return f"`{text}`" if text else "nothing"


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    if not rows:
        return "None."
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)
