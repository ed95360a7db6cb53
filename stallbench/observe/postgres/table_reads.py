"""Does each claim read the whole table of the queue, because no index serves it?

Read without ``pg_stat_statements``: from the scans that the server counts of each table.
"""

from __future__ import annotations

from typing import NamedTuple

from stallbench.base.number_text import format_count, format_plural
from stallbench.observe.diagnostic import Diagnostic, Finding, Reading, Section, Severity
from stallbench.observe.formatting import format_age
from stallbench.sql_names import write_quoted

_MANY_ROWS = 10_000
"""A scan of a smaller table is quick, and may be the best plan."""
_FEWEST_SCANS = 3
_OWN_SCANS = 4
"""The most scans of a table with which the counts of one reading can be made."""
_ROWS_PER_CHANGE = 1_000
_COUNTS = """
SELECT oid::bigint, oid::pg_catalog.regclass::pg_catalog.text, pg_catalog.pg_stat_get_numscans(oid), pg_catalog.pg_stat_get_tuples_returned(oid),
  pg_catalog.pg_stat_get_tuples_updated(oid) + pg_catalog.pg_stat_get_tuples_deleted(oid)
FROM pg_catalog.pg_class WHERE oid = ANY(%s::pg_catalog.oid[])
"""


class _Counts(NamedTuple):
    at_s: float
    scans: int
    rows: int
    changed: int


class TableReadsDiagnostic(Diagnostic):
    """Compares the sequential scans of the queue's tables between two readings."""

    name = "table reads"
    what = "scans of the queue's tables"
    position = 35

    def __init__(self) -> None:
        """Know no earlier counts."""
        self._last: dict[int, _Counts] = {}

    def read(self, reading: Reading) -> Section:
        """Return a finding for each table that was read as a whole again and again since the last reading."""
        findings = []
        wanted = [] if reading.state.is_replica else list(reading.state.queue_oids)
        for oid, name, *counts in reading.server.execute(_COUNTS, (wanted,)).fetchall():
            now, last = _Counts(reading.at_s, *counts), self._last.get(oid)
            self._last[oid] = now
            if last and (finding := _judge(write_quoted(name), last, now)):
                findings.append(finding)
        return Section(title="", findings=tuple(findings))


def _judge(table: str, last: _Counts, now: _Counts) -> Finding | None:
    """Return the finding if others than this observation have read many rows of the table for each that was changed."""
    scans, rows, changed = now.scans - last.scans, now.rows - last.rows, now.changed - last.changed
    if scans < _FEWEST_SCANS + _OWN_SCANS:
        return None
    each = rows / scans
    of_others = rows - _OWN_SCANS * each
    if each < _MANY_ROWS or of_others < _ROWS_PER_CHANGE * max(1, changed):
        return None
    per_change = f", {format_count(rows / changed)} for each row that was changed" if changed else ", and no row was changed"
    return Finding(
        severity=Severity.WARNING,
        subject=TableReadsDiagnostic.name,
        about=table,
        sentence=f"{table} was read without an index {format_plural(scans, 'time')} in the last {format_age(now.at_s - last.at_s)}, "
        f"{format_count(each)} rows each time{per_change}.",
        because="a claim that no index serves reads the whole table, and takes longer the more jobs are in it; EXPLAIN of the claim shows whether it "
        "is the claim that does so",
    )
