"""Dead rows and sizes of the busiest tables, what their last vacuum left, which tables are overdue, and which autovacuum workers are busy?"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from stallbench.base.number_text import format_bytes, format_count, format_plural
from stallbench.engines.postgres.collectors.autovacuum import (
    OWN_VACUUM_SETTINGS,
    VACUUM_THRESHOLD,
    AutovacuumWorker,
    read_workers,
)
from stallbench.engines.postgres.collectors.vacuum import LAST_BYTES, LOGGED_NAME, AutovacuumLog
from stallbench.observe.diagnostic import Diagnostic, Finding, NotVisible, Reading, Section, Severity
from stallbench.observe.formatting import format_age
from stallbench.observe.postgres.dead_rows import DeadRows, Left, Removal, find_claim, find_keeper, rate_of
from stallbench.observe.postgres.indexes import judge_indexes
from stallbench.observe.postgres.table_sizes import FILLED, ROW_OVERHEAD_BYTES, Sizes, TableSizes
from stallbench.sql_names import write_quoted

_MOST_SHOWN = 8
_MANY_DEAD = 10_000
_SOME_DEAD = 1_000
_MOSTLY_DEAD = 0.5
"""Share of dead rows among all above which a scan of the table is mostly in vain."""
_XIDS = 2**32
_NAMES = "SELECT oid::bigint, oid::pg_catalog.regclass::pg_catalog.text FROM pg_catalog.pg_class WHERE oid = ANY(%s::pg_catalog.oid[]) ORDER BY 2"
# All tables are counted in memory, without locks. A table without settings of its own is not
# due before it has the server's threshold of dead rows, so the others need not be judged.
_TABLES = f"""
WITH counted AS MATERIALIZED (
  SELECT oid, pg_catalog.pg_stat_get_dead_tuples(oid) AS dead,
    pg_catalog.pg_stat_get_tuples_inserted(oid) + pg_catalog.pg_stat_get_tuples_updated(oid) + pg_catalog.pg_stat_get_tuples_deleted(oid) AS written
  FROM pg_catalog.pg_class
  WHERE relkind IN ('r', 'm') AND relpersistence <> 't'
), judged AS MATERIALIZED (
  SELECT counted.oid, dead, written, {VACUUM_THRESHOLD} AS threshold, coalesce(own.enabled, 'true')::boolean AS enabled,
    {LOGGED_NAME} AS logged_name
  FROM counted
  JOIN pg_catalog.pg_class ON pg_class.oid = counted.oid
  JOIN pg_catalog.pg_namespace ON pg_namespace.oid = relnamespace
  {OWN_VACUUM_SETTINGS}
  WHERE dead > pg_catalog.current_setting('autovacuum_vacuum_threshold')::int OR dead > 0 AND reloptions IS NOT NULL
  OR counted.oid = ANY(%(wanted)s::pg_catalog.oid[])
), in_vacuum AS MATERIALIZED (
  SELECT relid AS oid FROM pg_catalog.pg_stat_progress_vacuum WHERE datname = pg_catalog.current_database()
), overdue AS (
  SELECT oid, dead - threshold AS beyond FROM judged
  WHERE enabled AND dead > threshold AND oid NOT IN (SELECT oid FROM in_vacuum)
), shown AS (
  (SELECT * FROM judged ORDER BY dead DESC LIMIT {_MOST_SHOWN})
  UNION
  SELECT * FROM judged WHERE oid = ANY(%(wanted)s::pg_catalog.oid[])
)
SELECT oid::bigint, oid::pg_catalog.regclass::pg_catalog.text, dead, written, pg_catalog.pg_stat_get_live_tuples(oid), threshold, enabled,
  pg_catalog.pg_stat_get_vacuum_count(oid) + pg_catalog.pg_stat_get_autovacuum_count(oid),
  extract(epoch FROM pg_catalog.clock_timestamp()
    - greatest(pg_catalog.pg_stat_get_last_vacuum_time(oid), pg_catalog.pg_stat_get_last_autovacuum_time(oid)))::double precision,
  oid IN (SELECT oid FROM in_vacuum),
  (SELECT pg_catalog.count(*) FROM overdue),
  ARRAY(SELECT oid::pg_catalog.regclass::pg_catalog.text FROM overdue ORDER BY oid = ANY(%(wanted)s::pg_catalog.oid[]) DESC, beyond DESC LIMIT {_MOST_SHOWN}),
  (SELECT pg_catalog.count(*) FROM counted),
  logged_name,
  coalesce(pg_catalog.pg_stat_get_last_vacuum_time(oid) <= pg_catalog.pg_stat_get_last_autovacuum_time(oid),
    pg_catalog.pg_stat_get_last_vacuum_time(oid) IS NULL),
  (SELECT pg_catalog.sum((1 - null_frac) * avg_width) FROM pg_catalog.pg_stats
   JOIN pg_catalog.pg_namespace ON nspname = schemaname
   JOIN pg_catalog.pg_class AS own_class ON own_class.relnamespace = pg_namespace.oid AND own_class.relname = tablename
   WHERE own_class.oid = shown.oid)
FROM shown
ORDER BY dead DESC, written DESC
LIMIT {_MOST_SHOWN} + pg_catalog.cardinality(%(wanted)s::pg_catalog.oid[])
"""
LITTLE_BYTES = 8 * 1024 * 1024
"""Bloat below this is not worth a mention."""


class TableCounts(NamedTuple):
    """What the server says about a table."""

    oid: int
    name: str
    dead: int
    written: int
    live: int
    threshold: float
    has_autovacuum: bool
    vacuums: int
    vacuumed_s: float | None
    """Since the end of its last vacuum."""
    in_vacuum: bool
    overdue_tables: int
    """Of the whole database, without those that autovacuum never vacuums, and those that are being vacuumed."""
    overdue_names: Sequence[str]
    """Of some of them, the queue's and then the one that is due most first, as SQL needs them."""
    tables: int
    logged_name: str
    """As the server's log names it."""
    was_autovacuum: bool
    """Whether its last vacuum may have been autovacuum's, which the log has."""
    row_bytes: float | None
    """Without its header; None if the user may not read the table's statistics."""
    sizes: Sizes | None = None
    """None if another session has locked it."""

    @property
    def is_overdue(self) -> bool:
        """Whether autovacuum should vacuum it, by its own rule."""
        return self.dead > self.threshold

    @property
    def bloat_bytes(self) -> float | None:
        """What the table occupies beyond its live rows, estimated from the sampled width of its columns."""
        if self.row_bytes is None or self.sizes is None or self.sizes.table_bytes is None or self.sizes.live_rows is None:
            return None
        return max(0.0, self.sizes.table_bytes - self.sizes.live_rows * (self.row_bytes + ROW_OVERHEAD_BYTES) / FILLED)


def _read(row: tuple[Any, ...]) -> TableCounts:
    counts = TableCounts(*row)
    return counts._replace(name=write_quoted(counts.name), overdue_names=[write_quoted(name) for name in counts.overdue_names])


class _Reading(NamedTuple):
    """What one reading found of a table."""

    at_s: float
    next_xid: int
    counts: TableCounts


class TablesDiagnostic(Diagnostic):
    """Reads the statistics of all tables, and the sizes of few."""

    name = "tables"
    what = "dead rows, sizes and vacuums of tables"
    position = 30
    shortest_pause_s = 4.0

    def __init__(self, log: Path | None = None) -> None:
        """Know no earlier counts. ``log``: the server's log, if this machine has it."""
        self._tables: list[TableCounts] = []
        self._workers: tuple[int, Sequence[AutovacuumWorker]] = (0, ())
        self._last: dict[int, _Reading] = {}
        self._first: dict[int, _Reading] = {}
        """The first one since the last vacuum of each table."""
        self._rates: dict[int, tuple[float | None, float | None]] = {}
        self._left: dict[int, Left] = {}
        self._logged: dict[int, dict[str, int]] = {}
        """What the log said when it was last read of each table."""
        self._sizes = TableSizes()
        self._log: AutovacuumLog | None = None
        self._log_path = log
        self._why_no_log = ""

    def read(self, reading: Reading) -> Section:
        """Return the tables with the most dead rows and the queue's."""
        self._tables, reading.state.dead_rows = [], {}
        wanted = reading.state.queue_oids
        if reading.state.is_replica:
            return self._show_sizes_only(reading)
        rows = reading.server.execute(_TABLES, {"wanted": list(wanted)}).fetchall()
        sizes = self._sizes.read(reading.server, [row[0] for row in rows])
        tables = [_read(row)._replace(sizes=sizes.get(row[0])) for row in rows if row[1] is not None]
        self._notice_vacuums(tables, reading)
        self._tables = tables
        self._workers = most, workers = read_workers(reading.server)
        of_indexes = judge_indexes(
            reading, [(one.oid, one.sizes) for one in tables if one.sizes and not _is_mostly_dead(one)], LITTLE_BYTES
        )
        reading.state.dead_rows = {table.oid: self._describe_dead(table, reading) for table in tables}
        overdue = tables[0].overdue_tables if tables else 0
        listed = [table for table in tables if table.dead >= _SOME_DEAD or table.oid in wanted]
        has_toast = any(table.sizes and table.sizes.toast_bytes for table in listed)
        section = Section(
            title="Tables with the most dead rows, and the queue's",
            columns=(
                "table",
                "live rows",
                "dead rows",
                "due at",
                "last vacuum",
                "it left",
                "writes/s",
                "size",
                "bloat",
                *(["TOAST"] if has_toast else []),
                "indexes",
            ),
            rows=tuple(self._row(table, reading.at_s, has_toast=has_toast) for table in listed),
            sentences=(self._describe_workers(most, workers, overdue, tables, sees_all=reading.state.sees_all),),
            findings=tuple(of_indexes),
            not_visible=self._name_not_visible(tables),
        )
        self._last = {table.oid: _Reading(reading.at_s, reading.state.next_xid, table) for table in tables}
        return section

    def _notice_vacuums(self, tables: Sequence[TableCounts], reading: Reading) -> None:
        """Learn what each vacuum left: from the log, or from the counts before and after one that ended between two readings.

        PostgreSQL sets its count of dead rows to what a vacuum left at its end. What was written since the reading before may have died after that.
        """
        self._read_log()
        for table in tables:
            last = self._last.get(table.oid)
            if last and table.vacuums != last.counts.vacuums:
                self._left.pop(table.oid, None)
                if table.vacuums == last.counts.vacuums + 1:
                    written = table.written - last.counts.written
                    self._left[table.oid] = Left(max(0, table.dead - written), table.dead)
            if last is None or table.vacuums != last.counts.vacuums:
                self._first[table.oid] = _Reading(reading.at_s, reading.state.next_xid, table)
            logged = self._log.last.get(table.logged_name) if self._log else None
            if logged is None or not table.was_autovacuum:
                continue
            if logged is not self._logged.get(table.oid) and "not_removable_tuples" in logged:
                self._logged[table.oid] = logged
                kept, cutoff = logged["not_removable_tuples"], logged.get("oldest_xmin")
                age = (reading.state.next_xid - cutoff) % _XIDS if cutoff is not None else None
                self._left[table.oid] = Left(kept, kept, age)

    def _describe_dead(self, table: TableCounts, reading: Reading) -> DeadRows:
        last, first = self._last.get(table.oid), self._first[table.oid]
        per_s = per_xid = None
        if last and last.counts.vacuums == table.vacuums:
            xids = (reading.state.next_xid - last.next_xid) % _XIDS
            per_s, per_xid = rate_of(table.dead - last.counts.dead, reading.at_s - last.at_s, xids)
        if per_s is not None:
            self._rates[table.oid] = per_s, per_xid
        elif last and last.counts.vacuums != table.vacuums:
            per_s, per_xid = self._rates.get(table.oid, (None, None))
        return DeadRows(
            dead=table.dead,
            vacuumed_s=table.vacuumed_s,
            left=self._left.get(table.oid),
            dead_before=first.counts.dead,
            xids_before=(reading.state.next_xid - first.next_xid) % _XIDS,
            per_s=per_s,
            per_xid=per_xid,
        )

    def _show_sizes_only(self, reading: Reading) -> Section:
        """Return the queue's tables on a replica, which counts no dead rows and vacuums nothing."""
        wanted = list(reading.state.queue_oids)
        sizes = self._sizes.read(reading.server, wanted)
        names = {oid: write_quoted(name) for oid, name in reading.server.execute(_NAMES, (wanted,)).fetchall()}
        return Section(
            title="Tables of the queue",
            columns=("table", "live rows", "dead rows", "last vacuum", "size", "indexes") if names else (),
            rows=tuple(
                (
                    name,
                    *["unknown"] * 3,
                    format_bytes(sizes[oid].table_bytes) if oid in sizes else "locked",
                    format_bytes(sizes[oid].index_bytes) if oid in sizes else "locked",
                )
                for oid, name in names.items()
            ),
            sentences=("Dead rows, vacuums and autovacuum workers are unknown: only the primary has them.",),
        )

    def _read_log(self) -> None:
        """Read what is new in the log, at first its end. It may be missing while another program replaces it."""
        if self._log_path is None:
            return
        try:
            if self._log is None:
                self._log = AutovacuumLog(self._log_path, self._log_path.stat().st_size - LAST_BYTES)
            self._log.read_on()
            self._why_no_log = ""
        except OSError as error:
            self._why_no_log = error.strerror or str(error)

    def judge(self, reading: Reading) -> tuple[Finding, ...]:
        """Return a finding for each table whose dead rows cannot be removed, or cost something: the holder that keeps them, or the table."""
        findings: list[Finding] = []
        for table in self._tables:
            rows = reading.state.dead_rows.get(table.oid)
            if rows is None or not _is_mostly_dead(table):
                continue
            is_introduced = any(one.subject != self.name for one in findings)
            if finding := self._judge(table, rows, reading, is_introduced=is_introduced):
                findings.append(finding)
        return (*findings, *self._judge_workers(reading))

    def _judge(self, table: TableCounts, rows: DeadRows, reading: Reading, *, is_introduced: bool) -> Finding | None:
        """Return what is wrong with a table. ``is_introduced``: whether a finding before it says what the oldest holder is."""
        is_queue = table.oid in reading.state.queue_oids
        removal, holder = find_keeper(rows, reading.state.holders)
        claim = find_claim(reading.state.claims, table.name.rpartition(".")[2]) if is_queue else None
        is_costly, is_cheap = claim is not None and claim.is_high, claim is not None and not claim.is_high
        words = f"{table.name} has {format_count(table.dead)} dead rows beside {format_plural(table.live, 'live row')}"
        words += f"; {self._describe_vacuum(table, rows)}." + (f" A claim {claim}." if claim and is_costly else "")
        because = "each claim reads past dead rows" if is_queue and not is_cheap else ""
        was_proven = holder is not None and not holder.is_feedback and rows.left is not None and rows.left.least >= table.dead / 2
        if holder is not None and removal is Removal.KEPT and (was_proven or holder.is_reported or not holder.is_young):
            return replace(
                holder.finding,
                severity=Severity.CRITICAL if is_queue and not is_cheap else Severity.WARNING,
                sentence=words if holder.is_reported or is_introduced else f"{holder.finding.sentence} {words}",
                because=holder.finding.because,
            )
        if holder is not None and not holder.is_young and removal is Removal.UNKNOWN:
            if not holder.is_reported:
                words += " Which of them died before it began, so that a vacuum would remove them, is not known."
            return replace(
                holder.finding,
                severity=Severity.WARNING,
                sentence=words if holder.is_reported or is_introduced else f"{holder.finding.sentence} {words}",
            )
        if is_cheap or (removal is Removal.REMOVED and table.oid in reading.state.without_autovacuum):
            return None  # it costs nothing, or what is to blame has been said, with these figures
        severity = Severity.NOTE if not is_costly else Severity.CRITICAL if removal is Removal.REMOVED else Severity.WARNING
        if holder is not None and removal is not Removal.REMOVED:
            words += (
                " Most of them died so recently that transactions of some seconds keep them."
                if removal is Removal.KEPT
                else " Whether a vacuum would remove them now is not known."
            )
        can_vacuum = removal is Removal.REMOVED and not table.in_vacuum
        return Finding(
            severity=severity,
            subject=self.name,
            about=table.name,
            sentence=words,
            because=because,
            statement=f"VACUUM {table.name};" if can_vacuum else "",
            caution="reads and writes the whole table once" if can_vacuum else "",
        )

    def _describe_vacuum(self, table: TableCounts, rows: DeadRows) -> str:
        if table.in_vacuum:
            return "a vacuum of it is running"
        if table.vacuumed_s is None:
            return "it was never vacuumed"
        left = f" and left {rows.left} dead rows that it could not remove" if rows.left and rows.left.most else ""
        return f"its last vacuum ended {format_age(table.vacuumed_s)} ago{left}"

    def _judge_workers(self, reading: Reading) -> tuple[Finding, ...]:
        """Return a finding if every autovacuum worker is busy, and tables wait for one."""
        most, workers = self._workers
        overdue = self._tables[0].overdue_tables if self._tables else 0
        if not overdue or len(workers) < most:
            return ()
        first = self._tables[0]
        names = ", ".join(first.overdue_names)
        more = f" and {format_count(overdue - shown)} more" if overdue > (shown := len(first.overdue_names)) else ""
        all_workers = "The only autovacuum worker is" if most == 1 else f"All {most} autovacuum workers are"
        busy = "; ".join(f"{one.doing or 'busy'} for {format_age(one.busy_s)}" for one in workers)
        holder = next((one for one in reading.state.holders if not one.is_young), None)
        is_held = holder is not None
        return (
            Finding(
                severity=Severity.WARNING,
                subject=self.name,
                about="autovacuum workers",
                sentence=f"{all_workers} busy ({busy}), and {format_plural(overdue, 'table')} "
                f"{'is' if overdue == 1 else 'are'} due for a vacuum: {names}{more}."
                + (f" A vacuum removes nothing that died since {holder.name} began." if holder is not None else ""),
                statement="" if is_held else f"VACUUM {first.overdue_names[0]};",
                caution="" if is_held else "needs no autovacuum worker",
            ),
        )

    def _row(self, table: TableCounts, at_s: float, *, has_toast: bool) -> tuple[str, ...]:
        last = self._last.get(table.oid)
        rate = ""
        if last and at_s > last.at_s:
            rate = format_count((table.written - last.counts.written) / (at_s - last.at_s))
        vacuum = "running" if table.in_vacuum else "never" if table.vacuumed_s is None else f"{format_age(table.vacuumed_s)} ago"
        due = format_count(table.threshold) + (" (overdue)" if table.is_overdue else "")
        bloat = table.bloat_bytes
        is_little = bloat is not None and bloat < LITTLE_BYTES
        sizes = table.sizes
        toast = _describe_size(sizes.toast_bytes, sizes.toast_bloat_bytes) if sizes and sizes.toast_bytes else ""
        return (
            table.name,
            format_count(table.live),
            format_count(table.dead),
            due if table.has_autovacuum else "off",
            vacuum,
            str(self._left[table.oid]) if table.oid in self._left else "",
            rate,
            format_bytes(sizes.table_bytes) if sizes else "locked",
            "little" if is_little else f"about {format_bytes(bloat)}" if bloat is not None else "?",
            *([toast if sizes else "locked"] if has_toast else []),
            _describe_size(sizes.index_bytes, sizes.index_bloat_bytes) if sizes else "locked",
        )

    def _describe_workers(
        self, most: int, workers: Sequence[Any], overdue: int, tables: Sequence[TableCounts], *, sees_all: bool
    ) -> str:
        doing = "".join(f"; {one.doing or 'busy'} for {format_age(one.busy_s)}" for one in workers)
        due = f"{format_plural(overdue, 'table')} of {format_count(tables[0].tables if tables else 0)} overdue for a vacuum"
        busy = f"{len(workers)} of {most} workers busy{doing}"
        if not sees_all:
            busy = f"how many of its {most} workers are busy is hidden from this user"
        return f"Autovacuum: {busy}. {due}."

    def _name_not_visible(self, tables: Sequence[TableCounts]) -> tuple[NotVisible, ...]:
        not_visible = [
            NotVisible(what=f"size of {table.name}", why="another session has locked it or one of its indexes (ACCESS EXCLUSIVE)")
            for table in tables
            if table.sizes is None
        ]
        if self._why_no_log:
            not_visible.append(
                NotVisible(what="what vacuums could not remove", why=f"the log {self._log_path}: {self._why_no_log}")
            )
        if self._log_path is None and any(table.dead >= _MANY_DEAD and table.oid not in self._left for table in tables):
            not_visible.append(
                NotVisible(
                    what="what vacuums before this observation could not remove",
                    why="only the server's log has it",
                    remedy="wait for the next vacuum, or give the log, if it is on this machine: --log FILE",
                    could_change_the_answer=False,
                )
            )
        return tuple(not_visible)


def _is_mostly_dead(table: TableCounts) -> bool:
    return table.dead >= _MANY_DEAD and table.dead >= _MOSTLY_DEAD * (table.live + table.dead)


def _describe_size(size_bytes: int | None, bloat_bytes: float | None) -> str:
    """Return a size, with its bloat if that is known and more than a little."""
    bloat = f", about {format_bytes(bloat_bytes)} bloat" if bloat_bytes is not None and bloat_bytes >= LITTLE_BYTES else ""
    return f"{format_bytes(size_bytes)}{bloat}"
