"""How far is the server from the end of its transaction ids, where it refuses to write?"""

from __future__ import annotations

from stallbench.base.number_text import format_count
from stallbench.observe.diagnostic import Diagnostic, Finding, Reading, Section, Severity
from stallbench.observe.formatting import format_age
from stallbench.sql_names import quote_name

_STOP = 2**31 - 3_000_000
"""Transactions after which the server refuses to write, since the oldest that is not frozen (PostgreSQL 14 and later)."""
_FAILSAFE = 1_600_000_000
"""Age at which VACUUM itself drops everything else (vacuum_failsafe_age)."""
_LATE = 1_000_000_000
_AGES = """
SELECT datname, pg_catalog.age(datfrozenxid), pg_catalog.mxid_age(datminmxid), pg_catalog.current_setting('autovacuum_freeze_max_age')::bigint,
  CASE WHEN NOT pg_catalog.pg_is_in_recovery() THEN pg_catalog.pg_snapshot_xmax(pg_catalog.pg_current_snapshot())::pg_catalog.text::bigint END
FROM pg_catalog.pg_database
ORDER BY greatest(pg_catalog.age(datfrozenxid), pg_catalog.mxid_age(datminmxid)) DESC
LIMIT 1
"""


class WraparoundDiagnostic(Diagnostic):
    """Reads the age of the oldest database, and how fast transaction ids are used up."""

    name = "wraparound"
    what = "the distance to wraparound"
    position = 90
    shortest_pause_s = 10.0

    def __init__(self) -> None:
        """Know no earlier position."""
        self._last: tuple[float, int] | None = None
        self._rate = 0.0

    def read(self, reading: Reading) -> Section:
        """Return the distance in transactions and, from the second reading on, in time."""
        row = reading.server.execute(_AGES).fetchone()
        assert row is not None
        database, age_xids, age_multixacts, freeze_at, next_xid = row
        if next_xid is not None:
            if self._last and reading.at_s > self._last[0]:
                self._rate = (next_xid - self._last[1]) / (reading.at_s - self._last[0])
            self._last = self._last or (reading.at_s, next_xid)
        oldest = max(age_xids, age_multixacts)
        left = max(_STOP - oldest, 0)
        ids = "transaction ids" if age_xids >= age_multixacts else "multixact ids"
        speed = ""
        if self._rate >= 1 and age_xids >= age_multixacts:  # a transaction may use no multixact id, or several
            speed = f", {format_age(left / self._rate)} at {format_count(self._rate)} transactions/s"
        sentence = f"{format_count(left)} {ids} left until the server refuses to write{speed}; the oldest database is {database}."
        findings: tuple[Finding, ...] = ()
        if oldest >= max(_LATE, 2 * freeze_at):
            findings = (
                Finding(
                    severity=Severity.CRITICAL if oldest >= _FAILSAFE else Severity.WARNING,
                    subject=self.name,
                    about=database,
                    sentence=f"Only {sentence}",
                    because="vacuums cannot freeze what the horizon still protects: end its holder first",
                    statement="VACUUM (FREEZE, SKIP_LOCKED);",
                    where=f"in database {quote_name(database)}, as its owner or a superuser",
                    caution="reads every table that has old rows",
                ),
            )
        return Section(title="Wraparound", sentences=(sentence,), findings=findings, says_nothing=not findings)
