"""What `stallbench observe` says about the distance to wraparound, against made-up ages."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from stallbench.observe.diagnostic import ObserverState, Reading
from stallbench.observe.postgres.wraparound import WraparoundDiagnostic

FREEZE_AT = 200_000_000


class MadeUpServer:
    """Answers with one database's ages; each later reading is a thousand transactions further."""

    def __init__(self, xids: int, multixacts: int) -> None:
        self.ages = (xids, multixacts)
        self.next_xid = 5_000

    def execute(self, query: str) -> MadeUpServer:
        self.next_xid += 1_000
        return self

    def fetchone(self) -> Sequence[Any]:
        return ("app", *self.ages, FREEZE_AT, self.next_xid)


def say(xids: int, multixacts: int) -> str:
    """Return the sentence of the second reading, ten seconds after the first."""
    subject, server = WraparoundDiagnostic(), MadeUpServer(xids, multixacts)
    first, second = (subject.read(Reading(server=server, at_s=at_s, state=ObserverState())) for at_s in (0.0, 10.0))
    assert "transactions/s" not in first.sentences[0]
    return second.sentences[0]


def test_the_time_that_is_left_is_that_of_transaction_ids() -> None:
    assert say(xids=1_000_000, multixacts=5) == (
        "2,143,483,648 transaction ids left until the server refuses to write, 248 d 2 h at 100 transactions/s; the oldest database is app."
    )


def test_of_multixact_ids_no_time_is_said_because_transactions_do_not_use_one_each() -> None:
    assert say(xids=5, multixacts=1_000_000) == (
        "2,143,483,648 multixact ids left until the server refuses to write; the oldest database is app."
    )
