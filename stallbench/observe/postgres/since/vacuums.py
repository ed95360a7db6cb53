"""When was each table last vacuumed, and what does it still have?"""

from __future__ import annotations

from datetime import datetime

from stallbench.base.number_text import format_count
from stallbench.observe.diagnostic import Diagnostic, Reading, Section
from stallbench.observe.formatting import format_moment

_MOST_SHOWN = 10
_TABLES = """
SELECT relid::pg_catalog.regclass::pg_catalog.text, n_live_tup, n_dead_tup, autovacuum_count, last_autovacuum, last_vacuum, last_autoanalyze
FROM pg_catalog.pg_stat_user_tables
WHERE n_tup_ins + n_tup_upd + n_tup_del > 0
ORDER BY n_dead_tup DESC, n_tup_upd + n_tup_del DESC LIMIT %s
"""


class VacuumsDiagnostic(Diagnostic):
    """Reads the last vacuum of the tables with the most dead rows."""

    name = "last_vacuums"
    what = "the last vacuum of each table"
    position = 4

    def __init__(self, since: datetime) -> None:
        """``since``: the beginning of the time that was asked for."""
        self._since = since

    def read(self, reading: Reading) -> Section:
        """Return the tables."""
        tables = reading.server.execute(_TABLES, (_MOST_SHOWN,)).fetchall()
        rows = []
        for table, live, dead, count, autovacuum, vacuum, analyze in tables:
            times = [at for at in (autovacuum, vacuum) if at]
            is_since = any(at >= self._since for at in times)
            rows.append(
                (
                    table,
                    format_count(live),
                    format_count(dead),
                    *(format_moment(at) if at else "never" for at in (autovacuum, vacuum, analyze)),
                    format_count(count),
                    "yes" if is_since else "no",
                )
            )
        return Section(
            title="Tables, those with the most dead rows first",
            columns=(
                "table",
                "live rows",
                "dead rows",
                "last autovacuum",
                "last VACUUM",
                "last autoanalyze",
                "autovacuums",
                "vacuumed since the time asked for",
            ),
            rows=tuple(rows),
            sentences=("What a vacuum could not remove, and why, is in the server's log alone (log_autovacuum_min_duration).",)
            if rows
            else ("No table has been written to since the server counts.",),
        )
