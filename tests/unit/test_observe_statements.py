"""How `stallbench observe` compares the counts of many statements, without a server."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Any

import pytest

from stallbench.engines.collectors.statement_counts import StatementCounts
from stallbench.observe.diagnostic import NotVisible, ObserverState, Reading
from stallbench.observe.postgres.statements import StatementsDiagnostic

MANY = 5_000
CLAIM = re.compile("from jobs .*for update")


class ManyStatements(StatementsDiagnostic):
    """Statements of an application, of which the first is the claim; each is called once between two readings."""

    def __init__(self) -> None:
        super().__init__()
        self.calls = 0

    def read_counts(self, reading: Reading) -> list[StatementCounts]:
        self.calls += 1
        return [StatementCounts(number, self.calls, 2.0 * self.calls, 1, None) for number in range(MANY)]

    def read_texts(self, reading: Reading, statements: Sequence[int | str]) -> Iterable[tuple[int | str, str | None]]:
        return [(number, "select 1 from jobs for update" if number == 0 else f"select {number}") for number in statements]

    def describe_hidden(self, reading: Reading) -> tuple[NotVisible, ...]:
        return ()

    def describe_outdated(self, reading: Reading) -> tuple[NotVisible, ...]:
        return ()

    def describe_reset(self, reading: Reading) -> str:
        return "since then"


class CountedPattern:
    """A claim pattern that counts how often it is searched for."""

    def __init__(self) -> None:
        self.searches = 0

    def search(self, text: str) -> Any:
        self.searches += 1
        return CLAIM.search(text)


@pytest.fixture
def pattern() -> CountedPattern:
    return CountedPattern()


def test_each_statement_is_searched_for_the_claim_once_and_again_when_another_queue_is_found(pattern: CountedPattern) -> None:
    subject = ManyStatements()
    known = ObserverState(queue_names=("jobs",), claim_patterns=(pattern,))  # type: ignore[arg-type]
    for at_s in (0.0, 5.0, 10.0):
        section = subject.read(Reading(server=None, at_s=at_s, state=known))
    assert pattern.searches == MANY
    (claim,) = [row for row in section.rows if row[0].startswith("claim: ")]
    assert claim[1:3] == ("0.2", "2 ms")
    known.claim_patterns = ()
    section = subject.read(Reading(server=None, at_s=15.0, state=known))
    assert any(row[0].startswith("claim: ") for row in section.rows), "by the name of the table"
    known.queue_names = ()
    section = subject.read(Reading(server=None, at_s=20.0, state=known))
    assert not any(row[0].startswith("claim: ") for row in section.rows)
