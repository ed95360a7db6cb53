"""The latest deadlock, which InnoDB keeps until the next one."""

from __future__ import annotations

from stallbench.engines.innodb.deadlock_report import parse_deadlock
from stallbench.engines.innodb.literals import LITERALS
from stallbench.observe.diagnostic import Diagnostic, Reading, Section
from stallbench.observe.formatting import shorten_text

_LISTING = "SHOW ENGINE INNODB STATUS"
_ZONE = "SELECT @@global.time_zone, @@system_time_zone"


class LatestDeadlockDiagnostic(Diagnostic):
    """Reads it from the status of InnoDB."""

    name = "latest_deadlock"
    what = "the latest deadlock"
    position = 2

    def read(self, reading: Reading) -> Section:
        """Return its statements, and when it was."""
        rows = reading.server.fetch(_LISTING)
        latest = parse_deadlock(str(rows[0][2])) if rows else None
        ((zone, system_zone),) = reading.server.fetch(_ZONE)
        if latest is None:
            return Section(title="The latest deadlock", sentences=("The server lists none since it was started.",))
        return Section(
            title="The latest deadlock",
            columns=("session", "statement", ""),
            rows=tuple(
                (str(one.thread_id or "?"), shorten_text(one.sql, LITERALS, 90), "rolled back" if one.rolled_back else "")
                for one in latest.transactions
            ),
            sentences=(f"It was at {latest.when} of the server's clock ({system_zone if zone == 'SYSTEM' else zone}).",),
        )
