"""How many jobs are ready, how old is the oldest, and which jobs run for longer than their library would let them?"""

from __future__ import annotations

import shlex
import time
from collections.abc import Sequence
from typing import ClassVar

import psycopg

from stallbench.base.number_text import format_count, format_plural
from stallbench.engines import describe_error, loaded_errors
from stallbench.errors import BadInputError
from stallbench.observe.diagnostic import Diagnostic, Finding, NotVisible, Reading, Section, Severity
from stallbench.observe.formatting import format_age
from stallbench.observe.observer import ForeignCodeError
from stallbench.observe.postgres.job_counts import COUNT_TIMEOUT_MS, MOST_COUNTED, MOST_RUNNING, JobCounts, count_jobs
from stallbench.observe.postgres.queue_figures import format_at_least, format_oldest, format_overdue, list_figures, summarize
from stallbench.observe.postgres.recognition import MOST_TABLES, QueueTable, find_named_table, find_queue_tables
from stallbench.observe.thresholds import BRIEF_S
from stallbench.sql_names import quote_name

TRY_AGAIN_S = 60.0
"""After a query that took too long."""
_SEARCH_AGAIN_S = 300.0
_COUNTING_S = 3.0
"""How long one reading counts at most: with very many queue tables, the first report must not be late."""
REFUSED = "refused"
FILTERED = "a row-level security policy would filter the rows"
_CHECKS_POLICIES = "check_enable_rls"
"""The function of the server that refuses a query because of a policy. The message is in the server's language."""
TOO_LONG = "the count took too long"
DROPPED = "the table was dropped"
NO_TIME = f"a reading counts for at most {_COUNTING_S:.0f} s, and the next one continues"
_BEHIND_S = 60.0
_FAR_BEHIND_S = 600.0


class QueuesDiagnostic(Diagnostic):
    """Searches the queue tables when it first readings and every few minutes, and counts at each reading."""

    name = "queues"
    what = "the queue's jobs"
    position = 20
    why_missing: ClassVar[str] = "there is no such table in this database"
    form: ClassVar[str] = "SCHEMA.TABLE"

    def __init__(self, tables: Sequence[str] = ()) -> None:
        """``tables``: those that the user named; if none, all that are recognised."""
        self._named = tables
        self.tables: list[QueueTable] = []
        """Found at the last search."""
        self._missing: list[str] = []
        self._searched_s = float("-inf")
        self._not_before_s: dict[str, float] = {}
        self._last: dict[str, tuple[float, JobCounts]] = {}
        self.counts: dict[str, JobCounts] = {}
        """The counts of each queue at the last reading, by its title, and of each missing table; empty if that reading ended in an error."""
        self._are_new = False

    def require_named(self) -> None:
        """Raise `BadInputError` if the last search did not find a table that the user named."""
        if self._missing:
            issues = [f"--table {name}: {self.why_missing}; {self.describe_form(name)}" for name in self._missing]
            raise BadInputError("\n".join(issues))

    def take_new_counts(self) -> dict[str, JobCounts] | None:
        """Return `counts` once; none if no reading has counted since: expensive counts are left out of most readings."""
        are_new, self._are_new = self._are_new, False
        return self.counts if are_new else None

    def counted_at(self, table: QueueTable, at_s: float) -> JobCounts | None:
        """Return the counts of a queue by the reading that began at ``at_s``; none if that reading left them out."""
        counted_s, counts = self._last.get(table.name, (None, None))
        return counts if counted_s == at_s else None

    def read(self, reading: Reading) -> Section:
        """Return a row for each queue, and a finding for each that is behind or has jobs that nobody works on."""
        self.counts = {}
        self._are_new = True
        if reading.at_s - self._searched_s >= _SEARCH_AGAIN_S:
            self._search(reading)
            self._searched_s = reading.at_s
        patterns = [pattern for table in self.tables if table.known and (pattern := table.known.claim_pattern)]
        reading.state.queue_oids = [oid for table in self.tables for oid in table.leaves]
        reading.state.queue_names = [table.plain_name for table in self.tables]
        reading.state.claim_patterns = patterns
        rows: dict[str, tuple[str, ...]] = {}
        lines: dict[str, str] = {}
        findings: list[Finding] = []
        not_visible = [
            NotVisible(what=f"table {name}", why=self.why_missing, remedy=self.describe_form(name)) for name in self._missing
        ]
        all_counts = {f"table {name}": JobCounts(ready=None, oldest_s=None, why_not=self.why_missing) for name in self._missing}
        counted: set[str] = set()
        ends_s = time.monotonic() + _COUNTING_S
        for table in sorted(self.tables, key=self._counted_s):
            if counted and time.monotonic() > ends_s:
                all_counts[table.title] = JobCounts(ready=None, oldest_s=None, why_not=NO_TIME)
                continue
            counts = all_counts[table.title] = self._count(reading, table)
            rows[table.name] = list_figures(table, counts, self._describe_change(reading, table, counts))
            lines[table.name] = summarize(table, counts, self._describe_change(reading, table, counts))
            findings += [*(() if reading.state.shows_past else _judge(table, counts)), *_name_risk(reading, table, counts)]
            if counts.why_not:
                not_visible.append(_explain(reading, table, counts))
            self._last[table.name] = (reading.at_s, counts)
            counted.add(table.name)
        if len(counted) < len(self.tables):
            left = format_plural(len(self.tables) - len(counted), "queue")
            not_visible.append(
                NotVisible(what=f"the jobs of {left}", why=NO_TIME, remedy=f"name those that matter with --table {self.form}")
            )
        if len(self.tables) >= MOST_TABLES:
            not_visible.append(
                NotVisible(
                    what="every queue",
                    why=f"{format_count(MOST_TABLES)} tables have the columns of a queue, and no more are looked at",
                    remedy=f"name those that matter with --table {self.form}",
                )
            )
        reading.state.may_be_late = any(one.why_not or (one.oldest_s or 0) >= BRIEF_S for one in all_counts.values())
        self.counts = all_counts
        sentences = tuple(
            sentence
            for table in self.tables
            if table.known
            for sentence in (
                f"{table.known.title}: {table.known.note}." if table.known.note else "",
                "" if table.known.is_tested else f"{table.known.title}: recognised by its documentation, untested.",
            )
            if sentence
        )
        if not self.tables and not self._missing:
            sentences = (f"No queue table was recognised; name it with --table {self.form}.",)
            not_visible.append(self.describe_none(reading))
        return Section(
            title="Queues",
            columns=("queue", "ready", "change", "oldest ready", "running", "longest", "overdue for rescue") if rows else (),
            rows=tuple(rows[table.name] for table in self.tables if table.name in rows),
            sentences=sentences,
            summary=tuple(lines[table.name] for table in self.tables if table.name in lines),
            findings=tuple(findings),
            not_visible=tuple(not_visible),
        )

    def _counted_s(self, table: QueueTable) -> float:
        """Return when a queue was last counted, so that each has its turn."""
        return self._last[table.name][0] if table.name in self._last else float("-inf")

    def describe_form(self, name: str) -> str:
        """Return how to give the name of a table that was not found. PostgreSQL takes a name without quotes in small letters."""
        if '"' in name or name == name.lower():
            return f"give it as {self.form}"
        quoted = ".".join(part if part == part.lower() else quote_name(part) for part in name.split("."))
        return f"give it as {self.form}, and a name with capital letters in double quotes, as in SQL: '{quoted}'"

    def describe_none(self, reading: Reading) -> NotVisible:
        """Return that the database has no queue table of a known library, as far as this user sees."""
        return NotVisible(
            what=self.what,
            why=f"no queue table was recognised in this database; name it with --table {self.form}, on which {reading.state.user} needs SELECT",
        )

    def find_all(self, reading: Reading) -> list[QueueTable]:
        """Return the tables of all known libraries."""
        return find_queue_tables(reading.server)

    def find_named(self, reading: Reading, name: str) -> QueueTable | None:
        """Return the table that the user named; none if there is no such table."""
        return find_named_table(reading.server, name)

    def count(self, reading: Reading, table: QueueTable) -> JobCounts:
        """Count the jobs of one queue; raises errors of the server's driver."""
        return count_jobs(reading.server, table)

    def explain(self, error: Exception) -> str | None:
        """Return why a count failed, `REFUSED` or `TOO_LONG` among others; none if only the server's words tell."""
        if isinstance(error, psycopg.errors.InsufficientPrivilege):
            return FILTERED if error.diag.source_function == _CHECKS_POLICIES else REFUSED
        if isinstance(error, psycopg.errors.QueryCanceled):
            return TOO_LONG
        if isinstance(error, psycopg.errors.LockNotAvailable):
            return "another session has locked the table (ACCESS EXCLUSIVE)"
        if isinstance(error, psycopg.errors.OutOfMemory):
            return "the server has no room for the locks of its partitions (max_locks_per_transaction)"
        return DROPPED if isinstance(error, psycopg.errors.UndefinedTable) else None

    def _search(self, reading: Reading) -> None:
        if not self._named:
            self.tables = self.find_all(reading)
            return
        found = {name: self.find_named(reading, name) for name in self._named}
        # A table that was named twice, with its schema and without, is one queue.
        self.tables = list({table.name: table for table in found.values() if table is not None}.values())
        self._missing = [name for name, table in found.items() if table is None]

    def _count(self, reading: Reading, table: QueueTable) -> JobCounts:
        if reading.at_s < self._not_before_s.get(table.name, 0.0):
            return self._last[table.name][1]
        why_not = REFUSED
        try:
            if table.is_readable:
                return self.count(reading, table)
        except ForeignCodeError as error:
            return JobCounts(
                ready=None,
                oldest_s=None,
                why_not=f"a read of it could execute code of others with the rights of {reading.state.user}: {error}",
                remedy=f"--table {shlex.quote(table.name)}   (accepts that)",
            )
        except loaded_errors() as error:
            why_not = self.explain(error) or f"the server refuses it: {describe_error(error)}"
        if why_not == TOO_LONG:
            self._not_before_s[table.name] = reading.at_s + TRY_AGAIN_S
        if why_not == DROPPED:
            self._searched_s = float("-inf")
        return JobCounts(ready=None, oldest_s=None, why_not=why_not)

    def _describe_change(self, reading: Reading, table: QueueTable, counts: JobCounts) -> str:
        """Return how fast the number of ready jobs changes; empty if that is not known."""
        last_s, last = self._last.get(table.name, (reading.at_s, None))
        if not last or last.ready is None or counts.ready is None or reading.at_s <= last_s:
            return ""
        is_exact = max(last.ready, counts.ready) <= MOST_COUNTED
        return f"{(counts.ready - last.ready) / (reading.at_s - last_s):+,.1f}/s" if is_exact else ""


def _judge(table: QueueTable, counts: JobCounts) -> list[Finding]:
    findings = []
    if counts.overdue and table.known and table.known.running:
        words = table.known.running.rescue_words
        after_s = table.known.definition.rescue.after_s if table.known.definition else None
        limit = format_age(after_s) if after_s else "their own limit"
        words = words or f"have been running for longer than {limit}, after which {table.known.title} would rescue them"
        findings.append(
            Finding(
                severity=Severity.WARNING,
                subject=QueuesDiagnostic.name,
                about=f"{table.name}, running",
                sentence=f"{table.title}: {format_overdue(counts)} of {format_at_least(counts.running, MOST_RUNNING)} running jobs {words}.",
                because="their workers have probably died, and nobody works on them",
            )
        )
    if counts.ready and (counts.oldest_s or 0) >= _BEHIND_S:
        findings.append(
            Finding(
                severity=Severity.CRITICAL if (counts.oldest_s or 0) >= _FAR_BEHIND_S else Severity.WARNING,
                subject=QueuesDiagnostic.name,
                about=table.name,
                sentence=f"{table.title} is behind: {format_at_least(counts.ready, MOST_COUNTED)} jobs are ready, the oldest for "
                f"{format_oldest(counts)}.",
            )
        )
    return findings


def _name_risk(reading: Reading, table: QueueTable, counts: JobCounts) -> list[Finding]:
    if not counts.risk:
        return []
    return [
        Finding(
            severity=Severity.NOTE,
            subject=QueuesDiagnostic.name,
            about=f"{table.name}, risk",
            sentence=f"Each reading of {table.name}, which --table named, can execute code of others with all rights of "
            f"{reading.state.user or 'this user'}: {counts.risk}.",
        )
    ]


def _explain(reading: Reading, table: QueueTable, counts: JobCounts) -> NotVisible:
    user = reading.state.user or "the user"
    grantee = quote_name(user)
    if counts.why_not == FILTERED:
        return NotVisible(
            what=f"the jobs of {table.title}",
            why=f"{FILTERED} for {user}, so a count would be wrong",
            remedy=f"ALTER ROLE {grantee} BYPASSRLS;",
        )
    if counts.why_not == REFUSED:
        return NotVisible(
            what=f"the jobs of {table.title}",
            why=f"{user} may not read the table",
            remedy=f"GRANT USAGE ON SCHEMA {table.schema} TO {grantee}; GRANT SELECT ON {table.name} TO {grantee};",
        )
    return NotVisible(
        what=f"the jobs of {table.title}",
        why=counts.why_not + (f", more than {COUNT_TIMEOUT_MS} ms" if counts.why_not == TOO_LONG else ""),
        remedy=counts.remedy,
    )
