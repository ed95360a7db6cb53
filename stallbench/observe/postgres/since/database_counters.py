"""Deadlocks, spilled sorts, ended sessions, rollbacks and conflicts with replay: the server counts them, but not when they were."""

from __future__ import annotations

from datetime import datetime

from stallbench.base.number_text import format_bytes, format_count, format_plural
from stallbench.observe.diagnostic import Diagnostic, Finding, Reading, Section, Severity
from stallbench.observe.formatting import format_age, format_moment

_COUNTERS = """
SELECT stats_reset, deadlocks, temp_files, temp_bytes, xact_rollback, xact_commit, sessions_abandoned, sessions_fatal, sessions_killed,
  idle_in_transaction_time / 1000, coalesce(checksum_failures, 0)
FROM pg_catalog.pg_stat_database WHERE datname = pg_catalog.current_database()
"""
_CONFLICTS = """
SELECT confl_lock, confl_snapshot, confl_bufferpin, confl_deadlock, confl_tablespace
FROM pg_catalog.pg_stat_database_conflicts WHERE datname = pg_catalog.current_database()
"""
_OF_CONFLICTS = (
    "a lock of replay",
    "rows that the primary had removed",
    "a pinned page",
    "a deadlock with replay",
    "a tablespace",
)
"""What a query on a replica was cancelled for, by the columns of the query."""
_HARMFUL = ("deadlocks", "sessions ended by a fatal error", "sessions ended by an administrator", "checksum failures")


class DatabaseCountersDiagnostic(Diagnostic):
    """Reads the counters of the database, and on a replica why its queries were cancelled."""

    name = "database_counters"
    what = "deadlocks, temporary files and ended sessions"
    position = 2

    def __init__(self, since: datetime) -> None:
        """``since``: the beginning of the time that was asked for."""
        self._since = since

    def read(self, reading: Reading) -> Section:
        """Return the counters; a finding for each harmful one, if all that it counts was in the time that was asked for."""
        row = reading.server.execute(_COUNTERS).fetchone()
        assert row is not None, "the database of the session"
        reset, deadlocks, files, file_bytes, rollbacks, commits, abandoned, fatal, killed, idle_s, checksums = row
        counts = {
            "deadlocks": deadlocks,
            "sessions ended by a fatal error": fatal,
            "sessions ended by an administrator": killed,
            "sessions whose client vanished": abandoned,
            "checksum failures": checksums,
            "transactions rolled back": rollbacks,
            "temporary files": files,
        }
        notes = {
            "transactions rolled back": f"of {format_count(rollbacks + commits)}; observe rolls back each of its own",
            "temporary files": f"of {format_bytes(file_bytes)} together: sorts and hashes that did not fit into work_mem",
        }
        if reading.state.is_replica:
            conflicts = reading.server.execute(_CONFLICTS).fetchone() or (0,) * len(_OF_CONFLICTS)
            counts |= {f"queries cancelled for {what}": count for what, count in zip(_OF_CONFLICTS, conflicts, strict=True)}
        rows = [(what, format_count(count), notes.get(what, "")) for what, count in counts.items()]
        rows.append(("time idle in transaction", format_age(idle_s), "of all sessions together"))
        is_of_that_time = reset is not None and reset >= self._since
        harmful = [what for what in counts if what in _HARMFUL or what.startswith("queries cancelled")]
        begin = format_moment(reset) if reset else "the database was created, or the server crashed"
        return Section(
            title=f"Counters of database {reading.state.database}",
            columns=("what", "count", ""),
            rows=tuple(rows),
            sentences=(
                f"Counted since {begin}."
                + (
                    ""
                    if is_of_that_time
                    else " How much of it was after the time asked for is not known: compare with a later report."
                ),
            ),
            findings=tuple(
                Finding(
                    severity=Severity.WARNING,
                    subject=self.name,
                    about=what,
                    sentence=f"{format_plural(counts[what], what.removesuffix('s')) if what == 'deadlocks' else f'{what.capitalize()}: {counts[what]:,}'} "
                    f"in database {reading.state.database} since {format_moment(reset)}.",
                    because="the server's log says when, and of whom",
                )
                for what in harmful
                if is_of_that_time and counts[what]
            ),
        )
