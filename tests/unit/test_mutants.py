"""`python -m tools.mutants`: what the operators change, that every mutant can be read, and what the page makes of results."""

from __future__ import annotations

import ast
import time
from pathlib import Path
from typing import Any

import pytest

from tools.mutants import results, trials
from tools.mutants.child import NoAnswerError, call_in_child
from tools.mutants.crash_trials import choose_survivors
from tools.mutants.equivalence import read_equivalent
from tools.mutants.page import describe_rate, describe_seeded, judge_rows
from tools.mutants.python_operators import PYTHON_OPERATORS, Module, Shape
from tools.mutants.sources import FOLDER, QUEUES, Mutant, in_drawn_order, make_mutants
from tools.mutants.sql_operators import SQL_OPERATORS
from tools.mutants.sql_tokens import Statement

CLAIM = "SELECT id FROM jobs WHERE state = 'ready' AND run_at <= now() ORDER BY job_id LIMIT 1 FOR UPDATE SKIP LOCKED"
DELETE = "DELETE FROM jobs WHERE job_id = $1 AND attempts = $2"
NESTED = "SELECT 1 FROM a WHERE (x = 1 AND y BETWEEN 2 AND 3) OR NOT EXISTS (SELECT FROM b WHERE b.x = a.x) ORDER BY x, y"

SQL_EXAMPLES = {
    "drop condition": (CLAIM, ["WHERE  run_at <= now()", "WHERE state = 'ready'  ORDER"]),
    "or for and": (CLAIM, ["'ready' OR run_at"]),
    "negate": (NESTED, ["OR  EXISTS"]),
    "drop order": (CLAIM, ["now()  LIMIT 1"]),
    "reverse order": (CLAIM, ["ORDER BY job_id DESC"]),
    "drop sort key": (NESTED, ["= a.x) ORDER BY x", "ORDER BY  y"]),
    "drop lock": (CLAIM, ["LIMIT 1 "]),
    "wait for lock": (CLAIM, ["FOR UPDATE "]),
    "weaken lock": (CLAIM, ["FOR KEY SHARE SKIP LOCKED"]),
    "drop limit": (CLAIM, ["job_id  FOR"]),
    "raise limit": (CLAIM, ["LIMIT 1 + 1"]),
    "strict comparison": (CLAIM, ["run_at < now()"]),
    "reverse comparison": (CLAIM, ["state <> 'ready'", "run_at >= now()"]),
    "drop assignment": ("UPDATE t SET a = 1, b = f(2, 3) WHERE c", ["SET  b = f(2, 3) WHERE", "SET a = 1 WHERE"]),
    "wrong state": (CLAIM, ["state = 'claimed'"]),
    "wrong count": ("UPDATE t SET n = n + 1", ["n + 0", "n - 1"]),
    "increment twice": ("UPDATE t SET n = n + 1", ["n + 2"]),
    "wrong unit": ("SELECT now() + $1 * interval '1 second'", ["'1 minute'"]),
    "drop interval": ("SELECT now() + $1 * interval '1 second'", ["SELECT now() "]),
    "wrong clock": (CLAIM, ["(now() - interval '1 hour')", "(now() + interval '1 hour')"]),
    "time for id": (DELETE, ["jobs.enqueued_at = (SELECT same.enqueued_at FROM jobs AS same WHERE same.job_id = $1)"]),
    "swap parameters": (DELETE, ["job_id = $2 AND attempts = $1"]),
    "drop on conflict": ("INSERT INTO t VALUES (1) ON CONFLICT (a) DO NOTHING RETURNING a", ["(1)  RETURNING"]),
    "inner join": ("SELECT 1 FROM a LEFT JOIN b USING (c)", ["a  JOIN b"]),
    "other end": ("SELECT min(a)", ["max(a)"]),
    "drop default value": ("SELECT DISTINCT coalesce(f(a, b), 0)", ["DISTINCT (f(a, b))", "SELECT  coalesce"]),
    "take no advisory lock": ("SELECT pg_try_advisory_xact_lock(f(1))", ["SELECT true"]),
    "lock for too long or too short": ("SELECT pg_advisory_xact_lock(1)", ["pg_advisory_lock(1)"]),
    "drop unique": ("CREATE UNIQUE INDEX i ON t (a)", ["CREATE  INDEX"]),
    "change default": ("CREATE TABLE t (n integer DEFAULT 0)", ["DEFAULT 1"]),
    "forget snapshot": ("WITH a AS MATERIALIZED (SELECT 1) SELECT 1", ["AS NOT MATERIALIZED"]),
}

QUEUE = """
class Queue:
    def __init__(self):
        self._at_s = 0.0

    def claim(self):
        if not self._batch and self.time() >= self._at_s:
            self.execute("rescue")
            self._at_s = self.time() + 1
        found = self.execute("claim", b"queue", b"state")
        if found.ntuples == 0:
            self.execute("commit")
            return []
        for row in found:
            self._batch.append(row)
        return [deque.popleft(self._batch[0])]

    def complete(self, claim):
        self.execute("complete", *claim.handle)
        self.execute("commit")

    def enqueue(self, jobs):
        try:
            return self.insert("enqueue", [job.payload for job in jobs])
        except Error as error:
            self.execute("rollback")
            raise RefusedError from error
"""
STATEMENTS = {
    "claim": Shape("SELECT", 2),
    "rescue": Shape("UPDATE", 1),
    "complete": Shape("DELETE", 2),
    "forget": Shape("DELETE", 2),
    "rollback": Shape("ROLLBACK", 0),
}
PYTHON_EXAMPLES = {
    "drop step": ['pass\n        self.execute("commit")', "            pass\n            return []"],
    "repeat step": ['self.execute("complete", *claim.handle)\n        self.execute("complete", *claim.handle)'],
    "swap steps": ['self.execute("commit")\n        self.execute("complete", *claim.handle)'],
    "commit early": ['found = self.execute("claim", b"queue", b"state")\n        self.execute("commit")'],
    "commit for rollback": ['self.execute("rollback")\n            return []'],
    "ignore row count": ["if (found.ntuples == 0) and False:"],
    "negate condition": ["if not (found.ntuples == 0):"],
    "always": ["if True:\n            self.execute", "if False:\n            self.execute"],
    "drop operand": ["if (self.time() >= self._at_s):", "if (not self._batch):"],
    "forget reset": ['self.execute("rescue")\n            pass'],
    "wrong sum": ["self._at_s = self.time()\n", "self.time() - 1"],
    "wrong comparison": ["self.time() > self._at_s", "self.time() < self._at_s", "found.ntuples != 0"],
    "return nothing": ["append(row)\n        return []"],
    "swap arguments": ["*claim.handle[::-1]", 'b"state", b"queue"'],
    "swallow error": ["pass\n"],
    "other statement": ['self.execute("forget", *claim.handle)'],
    "wrong element": ["self._batch[-1]", "appendleft(row)", "deque.pop("],
    "stop after first": ["append(row)\n            break", "for job in jobs[:1]"],
    "wrong constant": ["self.time() + 2", "found.ntuples == 1"],
}


@pytest.mark.parametrize("name", SQL_OPERATORS.all)
def test_an_operator_of_sql_changes(name: str) -> None:
    text, expected = SQL_EXAMPLES[name]
    made = [edit.apply(text) for edit in SQL_OPERATORS.all[name].find(Statement(text))]
    assert not [part for part in expected if not any(part in one for one in made)], made
    assert text not in made


@pytest.mark.parametrize("name", PYTHON_OPERATORS.all)
def test_an_operator_of_python_changes(name: str) -> None:
    made = [edit.apply(QUEUE) for edit in PYTHON_OPERATORS.all[name].find(Module(QUEUE, STATEMENTS))]
    assert not [part for part in PYTHON_EXAMPLES[name] if not any(part in one for one in made)], made
    for one in made:
        ast.parse(one)


def test_conditions_end_where_they_should() -> None:
    made = [edit.apply(NESTED) for edit in SQL_OPERATORS.all["drop condition"].find(Statement(NESTED))]
    assert [" ".join(one.split()) for one in made] == [
        "SELECT 1 FROM a WHERE NOT EXISTS (SELECT FROM b WHERE b.x = a.x) ORDER BY x, y",
        "SELECT 1 FROM a WHERE (x = 1 AND y BETWEEN 2 AND 3) ORDER BY x, y",
        "SELECT 1 FROM a WHERE (x = 1 AND y BETWEEN 2 AND 3) OR NOT EXISTS (SELECT FROM b ) ORDER BY x, y",
        "SELECT 1 FROM a WHERE ( y BETWEEN 2 AND 3) OR NOT EXISTS (SELECT FROM b WHERE b.x = a.x) ORDER BY x, y",
        "SELECT 1 FROM a WHERE (x = 1 ) OR NOT EXISTS (SELECT FROM b WHERE b.x = a.x) ORDER BY x, y",
    ]


@pytest.fixture(scope="module")
def mutants() -> list[Mutant]:
    return [mutant for source in QUEUES.values() for mutant in make_mutants(source)]


def test_every_mutant_differs_in_one_file_and_is_python_where_it_should_be(mutants: list[Mutant]) -> None:
    assert len({mutant.id for mutant in mutants}) == len(mutants)
    assert {mutant.operator for mutant in mutants} == {*SQL_OPERATORS.all, *PYTHON_OPERATORS.all}
    sound = {source.kind: source.read() for source in QUEUES.values()}
    for mutant in mutants:
        assert [name for name, text in mutant.texts.items() if text != sound[mutant.queue][name]] == [mutant.file]
        if mutant.file.endswith(".py") and mutant.queue in ("skip_locked", "rotating_tables"):  # parsing takes time
            ast.parse(mutant.texts[mutant.file])


def test_a_queue_of_several_files_uses_its_own_copies() -> None:
    texts = QUEUES["laravel"].read()
    assert "from laravel_table import" in texts["laravel.py"]
    assert "from stallbench.queues.laravel_table import" in (FOLDER / "laravel.py").read_text()


def test_the_order_depends_on_the_seed_alone(mutants: list[Mutant]) -> None:
    first = [mutant.id for mutant in in_drawn_order(mutants, 1)]
    assert first == [mutant.id for mutant in in_drawn_order(list(reversed(mutants)), 1)]
    assert first != [mutant.id for mutant in in_drawn_order(mutants, 2)]
    assert len({name.partition("/")[0] for name in first[:200]}) == len(QUEUES), "the first ones are a sample of all queues"


def test_every_equivalent_mutant_exists_and_has_an_argument(mutants: list[Mutant]) -> None:
    declared = read_equivalent()
    assert not set(declared) - {mutant.id for mutant in mutants}
    assert all(declared.values())


def test_a_result_that_a_killed_process_has_begun_is_left_out_and_the_next_one_is_whole(tmp_path: Path) -> None:
    path = tmp_path / "results.jsonl"
    results.append(path, {"mutant": "a", "kind": "operations"})
    with path.open("a") as file:
        file.write('{"mutant": "b", "ki')
    results.append(path, {"mutant": "c", "kind": "operations"})
    assert list(results.latest(results.read(path), "operations")) == ["a", "c"]
    assert results.read(tmp_path / "none") == []


def record(mutant: Mutant, result: str, kind: str = "operations", **changes: Any) -> dict[str, Any]:
    return {"kind": kind, "mutant": mutant.id, "digest": mutant.digest, "result": result, "by": "x", "trials": "", **changes}


def test_the_rate_leaves_out_stillborn_and_equivalent_mutants_and_results_of_another_source(mutants: list[Mutant]) -> None:
    records = [
        *(record(mutant, "killed") for mutant in mutants[:5]),
        record(mutants[5], "survived"),
        record(mutants[6], "survived"),
        record(mutants[7], "unreached"),
        record(mutants[8], "stillborn"),
        record(mutants[9], "survived"),
        record(mutants[9], "killed", "crash points"),
        record(mutants[10], "killed", digest="of another text"),
    ]
    rows = judge_rows(mutants[:12], records, {mutants[5].id: "the reason"})
    assert [row.state for row in rows[5:]] == [
        "equivalent",
        "survived",
        "not reached",
        "stillborn",
        "killed",
        "not tried",
        "not tried",
    ]
    assert describe_rate(rows) == "6 of 8 (75.0 %)"
    assert [each.id for each in choose_survivors(mutants, records, [mutants[5].id])] == [mutants[6].id, mutants[7].id]
    with pytest.raises(ValueError, match="is declared equivalent, but was killed by: x"):
        judge_rows(mutants[:1], records, {mutants[0].id: "wrong"})


def test_a_child_answers_or_is_ended() -> None:
    assert call_in_child(lambda: {"a": [1]}, 5.0) == {"a": [1]}
    with pytest.raises(NoAnswerError, match="ended its process"):
        call_in_child(lambda: exit(3), 5.0)
    with pytest.raises(NoAnswerError, match=r"did not end within 0\.1 s"):
        call_in_child(lambda: time.sleep(60), 0.1)


def test_what_the_promises_reach_is_kept_until_a_queue_or_a_promise_changes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trials, "_CACHE", tmp_path / "kept")
    source, options = QUEUES["que"], {"batch": 3}
    assert trials.recall_observed(source, options) is None
    reach = trials.Reach(statements=frozenset({"claim"}), lines={"que.py": frozenset({3, 4})}, seconds=0.5)
    observed = trials.Observed(options=options, statements={"claim": "SELECT 1"}, reaches={"a promise": reach})
    assert trials.keep_observed(source, observed) == observed
    assert trials.recall_observed(source, options) == observed
    assert trials.recall_observed(source, {}) is None
    monkeypatch.setattr(trials, "digest_trials", lambda: "other promises")
    assert trials.recall_observed(source, options) is None


def test_the_page_says_which_seeded_defects_were_found_how_often(monkeypatch: pytest.MonkeyPatch) -> None:
    today = trials.digest_trials()
    found = [("forgets_delete", today, "a promise"), ("forgets_delete", today, ""), ("forgets_delete", "earlier", "a promise")]
    records = [{"kind": "seeded", "defect": name, "trials": digest, "by": by} for name, digest, by in found]
    assert "| `forgets_delete` | 1 of 2 | a promise |" in describe_seeded(records)
