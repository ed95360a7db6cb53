"""The mistakes that are made in a statement, token by token: published statements are mutated as they are written."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import pairwise

from tools.mutants.edit import Edit, OperatorList
from tools.mutants.sql_tokens import Statement

SQL_OPERATORS: OperatorList[Statement] = OperatorList()
"""Every operator; in the order of the page."""
_TIMES = ("enqueued_at", "appended_at", "created_at", "run_at")
_IDS = ("job_id", "entry_id", "id")


def _remove(statement: Statement, first: int, last: int) -> Edit:
    return Edit(*statement.span(first, last), "")


def _put(statement: Statement, first: int, last: int, text: str) -> Edit:
    return Edit(*statement.span(first, last), text)


@SQL_OPERATORS.add("drop condition", "leaves out a condition of a WHERE")
def drop_condition(statement: Statement) -> Iterator[Edit]:
    """Each term; and a WHERE that has only one."""
    for terms in statement.conditions():
        first, last = terms[0]
        if len(terms) == 1:
            yield _remove(statement, first - 1, last)
            continue
        yield _remove(statement, first, terms[1][0] - 1)
        for first, last in terms[1:]:
            yield _remove(statement, first - 1, last)


@SQL_OPERATORS.add("or for and", "joins two conditions by OR instead of AND, or the reverse")
def or_for_and(statement: Statement) -> Iterator[Edit]:
    """Each connective."""
    for terms in statement.conditions():
        for first, _ in terms[1:]:
            is_and = statement.tokens[first - 1].word == "AND"
            yield _put(statement, first - 1, first - 1, "OR" if is_and else "AND")


@SQL_OPERATORS.add("negate", "forgets a NOT")
def negate(statement: Statement) -> Iterator[Edit]:
    """``NOT`` before a condition, ``EXISTS`` or ``IN``; not that of a column."""
    for at in statement.find("NOT"):
        if statement.tokens[at + 1].word != "NULL" or statement.tokens[at - 1].word == "IS":
            yield _remove(statement, at, at)


@SQL_OPERATORS.add("drop order", "leaves out an ORDER BY")
def drop_order(statement: Statement) -> Iterator[Edit]:
    """The whole clause."""
    for at, parts in statement.lists("ORDER", "BY"):
        yield _remove(statement, at, parts[-1][1])


@SQL_OPERATORS.add("reverse order", "sorts in the wrong direction")
def reverse_order(statement: Statement) -> Iterator[Edit]:
    """The first sort key."""
    for _, parts in statement.lists("ORDER", "BY"):
        first, last = parts[0]
        if statement.tokens[last].word in ("ASC", "DESC"):
            yield _put(statement, last, last, "DESC" if statement.tokens[last].word == "ASC" else "ASC")
        else:
            yield _put(statement, first, last, f"{statement.read(first, last)} DESC")


@SQL_OPERATORS.add("drop sort key", "sorts by fewer columns")
def drop_sort_key(statement: Statement) -> Iterator[Edit]:
    """Each of several."""
    for _, parts in statement.lists("ORDER", "BY"):
        for first, last in parts[1:]:
            yield _remove(statement, first - 1, last)
        if len(parts) > 1:
            yield _remove(statement, parts[0][0], parts[0][1] + 1)


@SQL_OPERATORS.add("drop lock", "selects without a lock clause")
def drop_lock(statement: Statement) -> Iterator[Edit]:
    """``FOR UPDATE`` or ``FOR SHARE``, with what follows."""
    for first, last in _locks(statement):
        yield _remove(statement, first, last)


@SQL_OPERATORS.add("wait for lock", "leaves out SKIP LOCKED or NOWAIT")
def wait_for_lock(statement: Statement) -> Iterator[Edit]:
    """What follows a lock clause."""
    for first, last in _locks(statement):
        if last > first + 1:
            yield _remove(statement, first + 2, last)
    for at in statement.find("NOWAIT"):
        yield _remove(statement, at, at)


@SQL_OPERATORS.add("weaken lock", "locks in a mode that does not exclude others")
def weaken_lock(statement: Statement) -> Iterator[Edit]:
    """``FOR KEY SHARE``, and ``ROW SHARE MODE`` of a table."""
    for first, _ in _locks(statement):
        yield _put(statement, first, first + 1, "FOR KEY SHARE")
    for at in statement.find("ACCESS", "EXCLUSIVE", "MODE"):
        yield _put(statement, at, at + 1, "ROW SHARE")


def _locks(statement: Statement) -> Iterator[tuple[int, int]]:
    """Yield the first and the last token of each lock clause."""
    for at in statement.find("FOR"):
        if at + 1 < len(statement.tokens) and statement.tokens[at + 1].word in ("UPDATE", "SHARE"):
            after = statement.tokens[at + 2 : at + 4]
            if [token.word for token in after] == ["SKIP", "LOCKED"]:
                yield at, at + 3
            elif after and after[0].kind == "placeholder":
                yield at, at + 2
            else:
                yield at, at + 1


@SQL_OPERATORS.add("drop limit", "leaves out a LIMIT")
def drop_limit(statement: Statement) -> Iterator[Edit]:
    """The whole clause."""
    for at in statement.find("LIMIT"):
        yield _remove(statement, at, at + 1)


@SQL_OPERATORS.add("raise limit", "takes one row more than wanted")
def raise_limit(statement: Statement) -> Iterator[Edit]:
    """One more."""
    for at in statement.find("LIMIT"):
        yield _put(statement, at + 1, at + 1, f"{statement.tokens[at + 1].text} + 1")


@SQL_OPERATORS.add("strict comparison", "compares with < instead of <=, or the reverse")
def strict_comparison(statement: Statement) -> Iterator[Edit]:
    """Each comparison by size."""
    swapped = {"<=": "<", ">=": ">", "<": "<=", ">": ">="}
    for at, token in enumerate(statement.tokens):
        if token.text in swapped:
            yield _put(statement, at, at, swapped[token.text])


@SQL_OPERATORS.add("reverse comparison", "compares the wrong way round, or for difference instead of equality")
def reverse_comparison(statement: Statement) -> Iterator[Edit]:
    """Each comparison in a condition."""
    swapped = {"<=": ">=", ">=": "<=", "<": ">", ">": "<", "=": "<>", "<>": "="}
    within = [(first, last) for terms in statement.conditions() for first, last in terms]
    seen = set()
    for first, last in within:
        for at in range(first, last + 1):
            if statement.tokens[at].text in swapped and at not in seen:
                seen.add(at)
                yield _put(statement, at, at, swapped[statement.tokens[at].text])


@SQL_OPERATORS.add("drop assignment", "forgets to set, or to reset, a column")
def drop_assignment(statement: Statement) -> Iterator[Edit]:
    """Each of the assignments of a SET; the only one becomes one of the column to itself."""
    if statement.tokens[0].word in ("ALTER", "CREATE"):
        return
    for _, parts in statement.lists("SET"):
        if len(parts) == 1:
            first, last = parts[0]
            column = statement.tokens[first].text
            yield _put(statement, first, last, f"{column} = {column}")
            continue
        yield _remove(statement, parts[0][0], parts[0][1] + 1)
        for first, last in parts[1:]:
            yield _remove(statement, first - 1, last)


@SQL_OPERATORS.add("wrong state", "writes or looks for the wrong state")
def wrong_state(statement: Statement) -> Iterator[Edit]:
    """Each literal that is a state, as another one."""
    others = {"'ready'": "'claimed'", "'claimed'": "'ready'", "'done'": "'ready'", "'scheduled'": "'ready'"}
    for at, token in enumerate(statement.tokens):
        if token.text in others:
            yield _put(statement, at, at, others[token.text])
    for at in statement.find("state", "="):
        if statement.tokens[at + 2].kind == "number":
            yield _put(statement, at + 2, at + 2, str((int(statement.tokens[at + 2].text) + 1) % 3))


@SQL_OPERATORS.add("wrong count", "counts by nothing, or in the wrong direction")
def wrong_count(statement: Statement) -> Iterator[Edit]:
    """``+ 1`` becomes ``+ 0`` and ``- 1``; the reverse likewise."""
    for at, token in enumerate(statement.tokens[:-1]):
        if token.text in ("+", "-") and statement.tokens[at + 1].text == "1":
            yield _put(statement, at + 1, at + 1, "0")
            yield _put(statement, at, at, "-" if token.text == "+" else "+")


@SQL_OPERATORS.add("wrong unit", "takes seconds for minutes, or milliseconds for seconds")
def wrong_unit(statement: Statement) -> Iterator[Edit]:
    """Each interval."""
    swapped = {"'1 second'": "'1 minute'", "'1 millisecond'": "'1 second'"}
    for at, token in enumerate(statement.tokens):
        if token.text in swapped:
            yield _put(statement, at, at, swapped[token.text])


@SQL_OPERATORS.add("drop interval", "forgets to add or subtract a time")
def drop_interval(statement: Statement) -> Iterator[Edit]:
    """``now() + ..`` and ``now() - ..`` become ``now()``."""
    for at in statement.find("NOW", "(", ")"):
        if at + 3 < len(statement.tokens) and statement.tokens[at + 3].text in ("+", "-"):
            last = statement.end_of_term(at, frozenset({"AND", "OR", ","}))
            if any(token.kind == "string" and "second" in token.text for token in statement.tokens[at : last + 1]):
                yield _remove(statement, at + 3, last)


@SQL_OPERATORS.add("wrong clock", "reads the time from a clock that is an hour off")
def wrong_clock(statement: Statement) -> Iterator[Edit]:
    """An hour early, and an hour late; where times are compared or written."""
    for at in statement.find("NOW", "(", ")"):
        yield _put(statement, at, at + 2, "(now() - interval '1 hour')")
        yield _put(statement, at, at + 2, "(now() + interval '1 hour')")


@SQL_OPERATORS.add("time for id", "identifies or sorts jobs by a time instead of their id")
def time_for_id(statement: Statement) -> Iterator[Edit]:
    """``ORDER BY job_id`` by a time; ``job_id = $1`` becomes every job of the same time, or of an earlier id's time."""
    for _, parts in statement.lists("ORDER", "BY"):
        for _, last in parts:
            if statement.tokens[last].text in _IDS:
                yield _put(statement, last, last, "run_at" if statement.tokens[last].text == "job_id" else "created_at")
    table = re.match(r"\s*(?:UPDATE|DELETE FROM)\s+([\w{}]+)", statement.text)
    if table is None:
        return
    for at, token in enumerate(statement.tokens[:-2]):
        after = statement.tokens[at + 1 : at + 3]
        if token.text in _IDS and after[0].text == "=" and after[1].kind == "parameter":
            column = "enqueued_at" if token.text == "job_id" else "created_at"
            chosen = f"(SELECT same.{column} FROM {table[1]} AS same WHERE same.{token.text} = {after[1].text})"
            yield _put(statement, at, at + 2, f"{table[1]}.{column} = {chosen}")


@SQL_OPERATORS.add("swap parameters", "passes two parameters in the wrong order")
def swap_parameters(statement: Statement) -> Iterator[Edit]:
    """Each pair of neighbours, at their first places."""
    at = {token.text: number for number, token in reversed(list(enumerate(statement.tokens))) if token.kind == "parameter"}
    names = sorted(name for name in at if name != "?")
    for one, other in pairwise(names):
        first, last = sorted((at[one], at[other]))
        between = statement.text[statement.tokens[first].end : statement.tokens[last].start]
        yield _put(statement, first, last, f"{statement.tokens[last].text}{between}{statement.tokens[first].text}")


@SQL_OPERATORS.add("drop on conflict", "does not expect that a row is there already")
def drop_on_conflict(statement: Statement) -> Iterator[Edit]:
    """Up to ``DO NOTHING``."""
    for at in statement.find("ON", "CONFLICT"):
        last = next(statement.find("DO", "NOTHING", since=at), None)
        if last is not None:
            yield _remove(statement, at, last + 1)


@SQL_OPERATORS.add("inner join", "joins so that rows without a partner are left out")
def inner_join(statement: Statement) -> Iterator[Edit]:
    """``LEFT JOIN``."""
    for at in statement.find("LEFT", "JOIN"):
        yield _remove(statement, at, at)


@SQL_OPERATORS.add("other end", "takes the last for the first: min for max, or the reverse")
def other_end(statement: Statement) -> Iterator[Edit]:
    """Each of these functions."""
    for at, token in enumerate(statement.tokens[:-1]):
        if token.word in ("MIN", "MAX") and statement.tokens[at + 1].text == "(":
            yield _put(statement, at, at, "max" if token.word == "MIN" else "min")


@SQL_OPERATORS.add("drop default value", "does not think of NULL: without coalesce or DISTINCT")
def drop_default_value(statement: Statement) -> Iterator[Edit]:
    """``coalesce(a, b)`` becomes ``a``; DISTINCT is left out."""
    for at in statement.find("COALESCE", "("):
        closing = statement.end_of_call(at + 1)
        comma = next(
            each
            for each in range(at, closing)
            if statement.tokens[each].text == "," and statement.tokens[each].depth == statement.tokens[at + 1].depth + 1
        )
        yield _put(statement, at, closing, f"({statement.read(at + 2, comma - 1)})")
    for at in statement.find("DISTINCT"):
        yield _remove(statement, at, at)


@SQL_OPERATORS.add("take no advisory lock", "goes on without the advisory lock, or does not release it")
def take_no_advisory_lock(statement: Statement) -> Iterator[Edit]:
    """Each call becomes what it returns when it succeeds."""
    for at, token in enumerate(statement.tokens[:-1]):
        if re.fullmatch(r"pg_(try_)?advisory_(xact_)?(un)?lock", token.text) and statement.tokens[at + 1].text == "(":
            if statement.tokens[at - 1].word == "PERFORM":
                yield _put(statement, at, statement.end_of_call(at + 1), "1")
            else:
                yield _put(statement, at, statement.end_of_call(at + 1), "true")


@SQL_OPERATORS.add(
    "lock for too long or too short", "takes an advisory lock for the session instead of the transaction, or the reverse"
)
def change_duration_of_lock(statement: Statement) -> Iterator[Edit]:
    """Locks, not unlocks."""
    for at, token in enumerate(statement.tokens):
        found = re.fullmatch(r"(pg_(?:try_)?advisory)_(xact_)?lock", token.text)
        if found:
            yield _put(statement, at, at, f"{found[1]}_lock" if found[2] else f"{found[1]}_xact_lock")


@SQL_OPERATORS.add("drop unique", "makes an index that does not make its column unique")
def drop_unique(statement: Statement) -> Iterator[Edit]:
    """``CREATE UNIQUE INDEX``."""
    for at in statement.find("CREATE", "UNIQUE", "INDEX"):
        yield _remove(statement, at + 1, at + 1)


@SQL_OPERATORS.add("change default", "gives a column another default")
def change_default(statement: Statement) -> Iterator[Edit]:
    """``DEFAULT 0`` becomes ``DEFAULT 1``; states and times are those of other operators."""
    for at in statement.find("DEFAULT", "0"):
        yield _put(statement, at + 1, at + 1, "1")


@SQL_OPERATORS.add("increment twice", "counts an attempt twice")
def increment_twice(statement: Statement) -> Iterator[Edit]:
    """``+ 1`` becomes ``+ 2``."""
    for at, token in enumerate(statement.tokens[:-1]):
        if token.text == "+" and statement.tokens[at + 1].text == "1":
            yield _put(statement, at + 1, at + 1, "2")


@SQL_OPERATORS.add("forget snapshot", "lets the planner merge a CTE that has to be computed first")
def forget_snapshot(statement: Statement) -> Iterator[Edit]:
    """``AS MATERIALIZED`` becomes ``AS NOT MATERIALIZED``."""
    for at in statement.find("AS", "MATERIALIZED"):
        yield _put(statement, at + 1, at + 1, "NOT MATERIALIZED")
