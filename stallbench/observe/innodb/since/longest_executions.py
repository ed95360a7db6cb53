"""Which statements once took far longer than they usually do? The performance schema has when each was last called, and its longest time."""

from __future__ import annotations

from datetime import UTC, datetime

from stallbench.base.number_text import format_count
from stallbench.engines.innodb.literals import LITERALS
from stallbench.observe.diagnostic import Diagnostic, Reading, Section
from stallbench.observe.formatting import format_moment, format_ms, shorten_text

_MOST_SHOWN = 10
_LONG_MS = 1000.0
# Times are picoseconds.
_LONGEST = """
SELECT digest_text, count_star, avg_timer_wait / 1e9, max_timer_wait / 1e9, unix_timestamp(first_seen), unix_timestamp(last_seen)
FROM performance_schema.events_statements_summary_by_digest
WHERE schema_name = database() AND digest IS NOT NULL AND unix_timestamp(last_seen) >= %s AND max_timer_wait >= %s
ORDER BY max_timer_wait DESC LIMIT %s
"""


class InnoDBLongestExecutionsDiagnostic(Diagnostic):
    """Reads the longest execution of each statement that was called in the time."""

    name = "longest_executions"
    what = "the longest executions of statements"
    position = 3

    def __init__(self, since: datetime) -> None:
        """``since``: the beginning of the time that was asked for."""
        self._since = since

    def read(self, reading: Reading) -> Section:
        """Return the statements with the longest execution."""
        found = reading.server.fetch(_LONGEST, (self._since.timestamp(), _LONG_MS * 1e9, _MOST_SHOWN))
        rows = tuple(
            (
                shorten_text(text, LITERALS, 70),
                format_ms(float(longest_ms)),
                format_ms(float(mean_ms)),
                format_count(calls),
                *(format_moment(datetime.fromtimestamp(float(at_s), UTC)) for at_s in (first_s, last_s)),
            )
            for text, calls, mean_ms, longest_ms, first_s, last_s in found
        )
        return Section(
            title="Statements that once took long, of those that were called since the time asked for",
            columns=("statement", "longest", "mean", "calls", "first call", "last call") if rows else (),
            rows=rows,
            sentences=(
                "The time of the longest execution is not kept."
                if rows
                else f"None of them took {_LONG_MS / 1000:.0f} s since it is counted.",
            ),
        )
