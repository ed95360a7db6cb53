"""Which statements once took far longer than they usually do? Their longest time survives a stall; when that was does not."""

from __future__ import annotations

from datetime import datetime

from stallbench.base.number_text import format_count
from stallbench.engines.collectors.statement_counts import plain_statement
from stallbench.engines.postgres.collectors.statements import find_counting_extension, read_statement_texts
from stallbench.engines.postgres.literals import LITERALS
from stallbench.observe.diagnostic import Diagnostic, Finding, Reading, Section, Severity
from stallbench.observe.formatting import format_moment, format_ms, shorten_text
from stallbench.observe.postgres.rights import describe_hidden_from
from stallbench.observe.postgres.statements import StatementsDiagnostic
from stallbench.observe.server_time import MARK

_MOST_SHOWN = 10
_LONG_MS = 1000.0
_TIMES_THE_MEAN = 10
_OLDEST_VERSION = [1, 8]
"""Of the extension; before, it did not tell planning from execution."""
_TIMED_VERSION = [1, 11]
"""From which on each statement has the time since when its longest time is counted."""
_LONGEST = """
SELECT queryid, pg_catalog.sum(calls)::bigint, pg_catalog.sum(total_exec_time) / pg_catalog.sum(calls), pg_catalog.max(max_exec_time),
  {counted_since}
FROM {schema}.pg_stat_statements(showtext := false)
WHERE dbid = (SELECT oid FROM pg_catalog.pg_database WHERE datname = pg_catalog.current_database()) AND queryid IS NOT NULL AND calls > 0
GROUP BY queryid HAVING pg_catalog.max(max_exec_time) >= %s
ORDER BY 4 DESC LIMIT %s
"""


class LongestExecutionsDiagnostic(Diagnostic):
    """Reads the longest execution of each statement from ``pg_stat_statements``."""

    name = "longest_executions"
    what = "the longest executions of statements"
    position = 3

    def __init__(self, since: datetime) -> None:
        """``since``: the beginning of the time that was asked for."""
        self._since = since

    def read(self, reading: Reading) -> Section:
        """Return the statements with the longest execution; a finding for each that usually is quick, if it was in the time that was asked for."""
        title = "Statements that once took long"
        extension = find_counting_extension(reading.server)
        if extension is None or extension.version < _OLDEST_VERSION:
            return Section(title=title, not_visible=StatementsDiagnostic().describe_missing(reading), says_nothing=True)
        since = "pg_catalog.min(minmax_stats_since)"
        if extension.version < _TIMED_VERSION:
            since = (
                f"(SELECT stats_reset FROM {extension.schema}.pg_stat_statements_info)" if extension.version >= [1, 9] else "NULL"
            )
        query = _LONGEST.format(schema=extension.schema, counted_since=since)
        found = reading.server.execute(query, (_LONG_MS, 2 * _MOST_SHOWN)).fetchall()
        texts = dict(read_statement_texts(reading.server, [row[0] for row in found])) if found else {}
        found = [row for row in found if MARK not in (texts.get(row[0]) or "")][:_MOST_SHOWN]
        rows, findings = [], []
        for statement, calls, mean_ms, longest_ms, counted_since in found:
            text = shorten_text(plain_statement(texts.get(statement)), LITERALS, 70) or f"statement {statement}"
            rows.append(
                (
                    text,
                    format_ms(longest_ms),
                    format_ms(mean_ms),
                    format_count(calls),
                    format_moment(counted_since) if counted_since else "?",
                )
            )
            is_of_that_time = counted_since is not None and counted_since >= self._since
            if is_of_that_time and longest_ms >= _TIMES_THE_MEAN * mean_ms:
                findings.append(
                    Finding(
                        severity=Severity.NOTE,
                        subject=self.name,
                        about=str(statement),
                        sentence=f"A statement that takes {format_ms(mean_ms)} on average took {format_ms(longest_ms)} at least once since "
                        f"{format_moment(counted_since)}: {text}",
                        because="what takes so much longer at times waits for a lock, or reads far more than usually",
                    )
                )
        return Section(
            title=title,
            columns=("statement", "longest", "mean", "calls", "counted since"),
            rows=tuple(rows),
            sentences=(
                "The time of the longest execution is not kept."
                if rows
                else f"No statement took {_LONG_MS / 1000:.0f} s since it is counted.",
            ),
            findings=tuple(findings),
            not_visible=()
            if reading.state.sees_all
            else (describe_hidden_from(reading.state.user, "the longest executions of other users' statements"),),
        )
