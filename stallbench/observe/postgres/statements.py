"""Time and buffers of the claim statement now and earlier, and which statements take the server's time now?"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any, ClassVar

from psycopg.errors import CharacterNotInRepertoire, UntranslatableCharacter

from stallbench.base.number_text import format_count, format_plural
from stallbench.engines.collectors.statement_counts import StatementCounts, plain_statement
from stallbench.engines.postgres.collectors.statements import (
    COUNTING_EXTENSION,
    counts_statements,
    find_counting_extension,
    has_reset_time,
    read_statement_counts,
    read_statement_texts,
)
from stallbench.engines.postgres.literals import LITERALS
from stallbench.engines.postgres.trust import find_extension
from stallbench.observe.diagnostic import Diagnostic, Finding, NotVisible, Reading, Section, Severity
from stallbench.observe.formatting import format_age, format_ms, shorten_text
from stallbench.observe.postgres.dead_rows import ClaimCost
from stallbench.observe.postgres.rights import describe_hidden_from, describe_untrusted
from stallbench.observe.server_time import MARK
from stallbench.observe.thresholds import CLAIM_BUFFERS, SLOWER_CLAIM
from stallbench.sql_literals import LiteralSyntax
from stallbench.sql_names import write_quoted

_MOST_SHOWN = 4
_FEWEST_CALLS = 3
_CLAIM_WORDS = re.compile(r"\bfor (no key )?update\b|\bskip locked\b|\bpg_try_advisory", re.IGNORECASE)
_OTHER_ENCODINGS = """
SELECT 'SELECT ' || %s || '.pg_stat_statements_reset(0::oid, ' || counted.dbid || '::oid, 0::bigint);', pg_catalog.quote_ident(datname)
FROM (SELECT DISTINCT dbid FROM {schema}.pg_stat_statements(showtext := false)) counted
JOIN pg_catalog.pg_database ON pg_database.oid = counted.dbid
WHERE pg_catalog.pg_encoding_to_char(encoding) <> pg_catalog.getdatabaseencoding()
ORDER BY 2
"""
"""With the types of the extension's function: else one that somebody else has created in the same schema, with integers, would fit better."""
_RESET = """
SELECT extract(epoch FROM pg_catalog.clock_timestamp() - stats_reset)::double precision FROM {schema}.pg_stat_statements_info
"""


class StatementsDiagnostic(Diagnostic):
    """Compares the counts of ``pg_stat_statements`` between readings, and with everything before the first reading."""

    name = "statements"
    what = "time and buffers of statements"
    position = 60
    shortest_pause_s = 2.0

    literals: ClassVar[LiteralSyntax] = LITERALS
    """How the texts of statements write constants."""

    def __init__(self) -> None:
        """Know no earlier counts."""
        self._first: dict[int | str, StatementCounts] = {}
        self._last: dict[int | str, StatementCounts] = {}
        self._last_s = 0.0
        self._texts: dict[int | str, str] = {}
        self._unseen_texts: tuple[NotVisible, ...] = ()
        self._own_ms = 0.0
        self._is_claim: dict[int | str, bool] = {}
        """Of the statements that were searched for `_searched_for`: of ten thousand that takes a while."""
        self._searched_for: tuple[Sequence[str], Sequence[re.Pattern[str]]] = ((), ())

    def read(self, reading: Reading) -> Section:
        """Return the claim statements and those that took the most time since the last reading."""
        reading.state.claims = ()
        counted = self.read_counts(reading)
        if counted is None:
            missing = [replace(one, could_change_the_answer=reading.state.may_be_late) for one in self.describe_missing(reading)]
            return Section(title="Statements", not_visible=tuple(missing), says_nothing=True)
        counts = {one.statement: one for one in counted}
        is_first = not self._last_s
        self._read_texts(reading, [name for name in counts if name not in self._texts])
        own = {name for name in counts if MARK in self._texts.get(name, "")}
        own_ms = sum(one.total_ms for name, one in counts.items() if name in own) - self._own_ms
        counts = {name: one for name, one in counts.items() if name not in own}
        grown = (
            {name: grew for name, one in counts.items() if (grew := _subtract(one, self._last.get(name)))} if not is_first else {}
        )
        if is_first:
            self._first = counts
        over_s = reading.at_s - self._last_s
        slowest = sorted(grown.values(), key=lambda one: -one.total_ms)[:_MOST_SHOWN]
        of_all_time = sorted(counts.values(), key=lambda one: -one.total_ms)[:_MOST_SHOWN]
        tables = reading.state.queue_names
        claims = self._find_claims(counts, tables, reading.state.claim_patterns)
        shown = dict.fromkeys(
            [*sorted(claims, key=lambda name: -counts[name].total_ms)[:_MOST_SHOWN], *(one.statement for one in slowest)]
        )
        shown = shown or dict.fromkeys(one.statement for one in of_all_time)
        rows, findings = [], []
        reading.state.claims = [
            ClaimCost(
                text=self._texts.get(name, ""), mean_ms=mean_ms, earlier_ms=_mean_ms(self._first.get(name)), buffers=_buffers(now)
            )
            for name in claims
            if (now := grown.get(name)) and now.calls >= _FEWEST_CALLS and (mean_ms := _mean_ms(now)) is not None
        ]
        for name in list(shown)[: 2 * _MOST_SHOWN]:
            now, earlier = grown.get(name), self._first.get(name)
            rows.append(self._row(name, name in claims, now, earlier, over_s))
            if name in claims and now and (finding := self._judge(name, now, earlier)):
                findings.append(finding)
        self._last, self._last_s, self._own_ms = counts, reading.at_s, self._own_ms + own_ms
        last = "not known before the second reading" if is_first else f"the last {format_age(over_s)}"
        spans = f"now: {last}; earlier: {self.describe_reset(reading)}."
        hidden = self.describe_hidden(reading)
        if tables and not claims:
            of = " of those that this user may see" if hidden else " of those whose text is known" if self._unseen_texts else ""
            spans += f" No statement{of} was recognised as the claim of the queue."
        if not is_first and own_ms > 0:
            spans += f" The queries of this observation took {format_ms(own_ms)} of that time."
        return Section(
            title="Statements: claims, and those that take the most time now",
            columns=("statement", "calls/s", "now", "earlier", "buffers now", "earlier"),
            rows=tuple(rows),
            sentences=(spans,),
            findings=tuple(findings),
            not_visible=(*hidden, *self._unseen_texts, *self.describe_outdated(reading)),
        )

    def read_counts(self, reading: Reading) -> list[StatementCounts] | None:
        """Return the counts of every statement; none if the server counts none."""
        return read_statement_counts(reading.server)

    def read_texts(self, reading: Reading, statements: Sequence[int | str]) -> Iterable[tuple[int | str, str | None]]:
        """Return the text of each statement. The server converts those of all databases, and refuses them all if it cannot convert one."""
        try:
            return read_statement_texts(reading.server, statements)
        except (CharacterNotInRepertoire, UntranslatableCharacter) as error:
            self._unseen_texts = (_describe_unreadable(reading, str(error.diag.message_primary)),)
            return []

    def describe_missing(self, reading: Reading) -> tuple[NotVisible, ...]:
        """Return why no statements are counted."""
        return (_describe_missing(reading),)

    def describe_hidden(self, reading: Reading) -> tuple[NotVisible, ...]:
        """Return which statements the user may not see."""
        what = "time and buffers of other users' statements, so the claim may be missing"
        return () if reading.state.sees_all else (describe_hidden_from(reading.state.user, what),)

    def describe_outdated(self, reading: Reading) -> tuple[NotVisible, ...]:
        """Return what an old version of the extension does not count."""
        extension = find_counting_extension(reading.server)
        if extension is None or has_reset_time(extension):
            return ()
        return (
            NotVisible(
                what="since when statements have been counted",
                why=f"the extension pg_stat_statements is still at version {'.'.join(map(str, extension.version))}",
                remedy=f"ALTER EXTENSION pg_stat_statements UPDATE; in database {reading.state.database}",
                could_change_the_answer=False,
            ),
        )

    def describe_reset(self, reading: Reading) -> str:
        """Return when the counts began, to follow 'earlier: '."""
        return _describe_reset(reading)

    def _read_texts(self, reading: Reading, new: Sequence[int | str]) -> None:
        """Read the texts of statements that were not there at the last reading: the server reads a whole file for it."""
        self._unseen_texts = ()
        if new:
            for name, text in self.read_texts(reading, new):
                self._texts[name] = plain_statement(text)

    def _find_claims(
        self, names: Iterable[int | str], tables: Sequence[str], patterns: Sequence[re.Pattern[str]]
    ) -> list[int | str]:
        if self._searched_for != (tables, patterns):
            self._searched_for, self._is_claim = (tables, patterns), {}
        for name in names:
            if name not in self._is_claim and name in self._texts:
                self._is_claim[name] = _is_claim(self._texts[name], tables, patterns)
        return [name for name in names if self._is_claim.get(name)]

    def _row(
        self, name: int | str, is_claim: bool, now: StatementCounts | None, earlier: StatementCounts | None, over_s: float
    ) -> tuple[str, ...]:
        text = shorten_text(self._texts[name], self.literals, 60) if name in self._texts else f"statement {name}"
        return (
            f"claim: {text}" if is_claim else text,
            f"{now.calls / over_s:,.1f}" if now else "0",
            format_ms(_mean_ms(now)) if now else "-",
            format_ms(_mean_ms(earlier)) if earlier else "-",
            _format_buffers(now),
            _format_buffers(earlier),
        )

    def _judge(self, name: int | str, now: StatementCounts, earlier: StatementCounts | None) -> Finding | None:
        buffers, before = _buffers(now), _buffers(earlier)
        if now.calls < _FEWEST_CALLS or buffers is None or buffers < CLAIM_BUFFERS:
            return None
        times = buffers / before if before else None
        if times is not None and times < SLOWER_CLAIM:
            return None
        compared = f", {times:,.1f} times as many as earlier ({format_count(before)})" if times else ""
        return Finding(
            severity=Severity.WARNING,
            subject=self.name,
            about=str(name),
            sentence=f"The claim statement takes {format_ms(_mean_ms(now))} and reads {format_plural(buffers, 'buffer')} (8 kB) per "
            f"call{compared}: {shorten_text(self._texts.get(name, ''), self.literals, 70)}",
            because="a claim that reads more pages than before reads past dead rows, or has another plan",
        )


def _is_claim(text: str, tables: Sequence[str], patterns: Sequence[re.Pattern[str]]) -> bool:
    if any(pattern.search(text) for pattern in patterns):
        return True
    return bool(_CLAIM_WORDS.search(text)) and any(re.search(rf"\b{re.escape(table)}\b", text) for table in tables)


def _subtract(now: StatementCounts, before: StatementCounts | None) -> StatementCounts | None:
    """Return what was counted between two readings; none if the statement was not called, or the counters were reset."""
    if before is None:
        return now
    if now.calls <= before.calls:
        return None
    buffers = None if now.buffers is None or before.buffers is None else now.buffers - before.buffers
    return StatementCounts(
        now.statement, now.calls - before.calls, now.total_ms - before.total_ms, now.rows - before.rows, buffers
    )


def _mean_ms(counts: StatementCounts | None) -> float | None:
    return counts.total_ms / counts.calls if counts and counts.calls else None


def _buffers(counts: StatementCounts | None) -> float | None:
    return counts.buffers / counts.calls if counts and counts.calls and counts.buffers is not None else None


def _format_buffers(counts: StatementCounts | None) -> str:
    buffers = _buffers(counts)
    return "-" if buffers is None else format_count(buffers)


def _describe_reset(reading: Reading) -> str:
    rows: list[tuple[Any, ...]] = []
    extension = find_counting_extension(reading.server)
    if extension is not None and has_reset_time(extension):
        rows = reading.server.execute(_RESET.format(schema=extension.schema)).fetchall()
    since = f", {format_age(rows[0][0])} ago, until this observation began" if rows else ""
    return f"since the statistics were reset{since}"


def _describe_unreadable(reading: Reading, error: str) -> NotVisible:
    """Name the databases that the statement may be from, and what removes it from the counted ones."""
    what = "texts of statements, and which of them is the claim"
    why = f"a statement of another database is in an encoding that this database cannot show: {error}"
    extension = find_counting_extension(reading.server)
    if extension is None:  # dropped since the texts were read
        return NotVisible(what=what, why=why)
    schema = extension.schema
    others = reading.server.execute(_OTHER_ENCODINGS.format(schema=schema), (schema,)).fetchall()
    resets = " ".join(write_quoted(reset) for reset, _ in others)
    discarded = f"{resets} discards what was counted in database {', '.join(name for _, name in others)}"
    of_dropped = f"SELECT {write_quoted(schema)}.pg_stat_statements_reset(); discards all counts: the other database was dropped"
    return NotVisible(what=what, why=why, remedy=discarded if others else of_dropped)


def _describe_missing(reading: Reading) -> NotVisible:
    what = "time and buffers of statements"
    is_loaded = counts_statements(reading.server)
    extension = find_extension(reading.server, COUNTING_EXTENSION, COUNTING_EXTENSION)
    if is_loaded and extension and extension.untrusted:
        return describe_untrusted(what, COUNTING_EXTENSION, extension, reading.state)
    if is_loaded:
        remedy = f"CREATE EXTENSION pg_stat_statements; in database {reading.state.database}"
    else:
        remedy = "shared_preload_libraries = 'pg_stat_statements' (needs a restart), then CREATE EXTENSION pg_stat_statements"
    return NotVisible(what=what, why="the server does not count them in this database", remedy=remedy)
