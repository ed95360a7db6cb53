"""Are many transactions of the database rolled back: statements that time out, deadlocks, serialization failures, or clients that give up?"""

from __future__ import annotations

from dataclasses import dataclass

from stallbench.base.number_text import format_count
from stallbench.observe.diagnostic import Diagnostic, Finding, Reading, Section, Severity
from stallbench.observe.postgres.session import APPLICATION

MANY_PER_S = 10.0
"""Fewer have many causes, also in a server without a problem."""
MANY_SHARE = 0.2
"""Of all transactions of the database that ended."""
_REPORTED_AFTER_S = 1.5
"""A session keeps its counts for itself for up to a second."""
_COUNTS = """
SELECT pg_catalog.pg_stat_get_db_xact_commit(oid), pg_catalog.pg_stat_get_db_xact_rollback(oid), pg_catalog.pg_stat_get_db_deadlocks(oid),
  (SELECT pg_catalog.count(*) FROM pg_catalog.pg_stat_activity WHERE application_name = %s AND datname = pg_catalog.current_database())
FROM pg_catalog.pg_database WHERE datname = pg_catalog.current_database()
"""


@dataclass(frozen=True, slots=True)
class _Counts:
    at_s: float
    committed: int
    rolled_back: int
    deadlocks: int
    own: int
    """Transactions that this observation has rolled back: each of its reads is one."""


class RollbacksDiagnostic(Diagnostic):
    """Compares the server's counts between two readings, without the transactions of the observation itself."""

    name = "rollbacks"
    what = "transactions that were rolled back"
    position = 65

    def __init__(self) -> None:
        """Know no earlier counts."""
        self._last: _Counts | None = None
        self._own_before = 0
        self._section = Section(title="")

    def read(self, reading: Reading) -> Section:
        """Return a note if a considerable part of the database's transactions was rolled back since the last reading."""
        if self._last is not None and reading.at_s - self._last.at_s < _REPORTED_AFTER_S:
            return self._section
        self._section = self._compare(reading)
        return self._section

    def _compare(self, reading: Reading) -> Section:
        committed, rolled_back, deadlocks, observers = reading.server.execute(_COUNTS, (APPLICATION,)).fetchone()
        if observers > 1:  # the rollbacks of another observation cannot be told from those of an application
            self._last = None
            return Section(title="")
        last, self._last = self._last, _Counts(reading.at_s, committed, rolled_back, deadlocks, reading.server.rolled_back)
        # Of the observation's own transactions, those of the last reading may be among the new ones.
        own_before, self._own_before = self._own_before, last.own if last else 0
        if last is None:
            return Section(title="")
        lasted_s = self._last.at_s - last.at_s
        others = rolled_back - last.rolled_back - (self._last.own - own_before)
        ended = others + committed - last.committed
        if others < MANY_PER_S * lasted_s or others < MANY_SHARE * ended:
            return Section(title="")
        return Section(title="", findings=(_judge(others / lasted_s, others / ended, deadlocks - last.deadlocks),))


def _judge(per_s: float, share: float, deadlocks: int) -> Finding:
    by_deadlocks = f" {format_count(deadlocks)} of them were ended by a deadlock." if deadlocks > 0 else ""
    return Finding(
        severity=Severity.NOTE,
        subject=RollbacksDiagnostic.name,
        about="database",
        sentence=f"{share:.0%} of this database's transactions are rolled back: {format_count(per_s)} each second.{by_deadlocks} The statistics do not "
        "say why; the server's log has an ERROR for each that failed (statement timeout, lock timeout, deadlock, could not serialize). A client or "
        "pool that ends what it has read by ROLLBACK is counted as well, and leaves no ERROR.",
        because="the work of a transaction that failed is lost, what it wrote is dead, and a job that it processed is re-executed",
    )
