"""Since when does the server count? What was counted before a reset, a crash or a start is gone."""

from __future__ import annotations

from datetime import datetime

from stallbench.engines.postgres.collectors.statements import find_counting_extension, has_reset_time
from stallbench.observe.diagnostic import Diagnostic, Finding, Reading, Section, Severity
from stallbench.observe.formatting import format_moment

_SERVER = """
SELECT pg_catalog.pg_postmaster_start_time(), pg_catalog.pg_conf_load_time(),
  (SELECT stats_reset FROM pg_catalog.pg_stat_database WHERE datname = pg_catalog.current_database()),
  (SELECT stats_reset FROM pg_catalog.pg_stat_bgwriter)
"""
_STATEMENTS = "SELECT stats_reset FROM {schema}.pg_stat_statements_info"


class ResetsDiagnostic(Diagnostic):
    """Reads when the server was started, and when its counters began."""

    name = "resets"
    what = "since when the server counts"
    position = 1

    def __init__(self, since: datetime) -> None:
        """``since``: the beginning of the time that was asked for."""
        self._since = since

    def read(self, reading: Reading) -> Section:
        """Return a row for each kind of counter; a finding if the server was started in that time."""
        row = reading.server.execute(_SERVER).fetchone()
        assert row is not None
        started, loaded, database, server = row
        times = {"the server was started": started, "its settings were last read": loaded}
        times |= {
            f"counters of database {reading.state.database} were reset": database,
            "counters of the server were reset": server,
        }
        extension = find_counting_extension(reading.server)
        if extension is not None and has_reset_time(extension):
            times["counters of statements were reset"] = reading.server.execute(
                _STATEMENTS.format(schema=extension.schema)
            ).fetchall()[0][0]
        findings: tuple[Finding, ...] = ()
        if started > self._since:
            findings = (
                Finding(
                    severity=Severity.WARNING,
                    subject=self.name,
                    about="start",
                    sentence=f"The server was started at {format_moment(started)}, after the time that was asked for.",
                    because="sessions, locks and transactions of before are gone, and after a crash the counters, too; the server's log says "
                    "why it ended",
                ),
            )
        return Section(
            title="What is known since when",
            columns=("what", "when", "after the time asked for"),
            rows=tuple(
                (what, format_moment(at) if at else "never", "yes" if at and at > self._since else "no")
                for what, at in times.items()
            ),
            sentences=(
                "A counter that was reset after the time asked for has only what came later; one that was reset before has what came earlier, too.",
                "A server that crashed counts from zero again: the time at which the server's counters were reset is then that of the crash.",
            ),
            findings=findings,
        )
