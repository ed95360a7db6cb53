"""Waits for locks, deadlocks, slow statements and refused connections: the server counts them since its start, and not when they were."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta

from stallbench.base.number_text import format_count
from stallbench.observe.diagnostic import Diagnostic, Finding, Reading, Section, Severity
from stallbench.observe.formatting import format_age, format_moment

_STATUS = """
SHOW GLOBAL STATUS WHERE variable_name IN ('Uptime_since_flush_status', 'Innodb_row_lock_waits', 'Innodb_row_lock_time_max', 'Innodb_row_lock_time',
  'Innodb_deadlocks', 'Slow_queries', 'Aborted_clients', 'Aborted_connects', 'Connection_errors_max_connections', 'Max_used_connections',
  'Created_tmp_disk_tables', 'Com_rollback')
"""
_COUNTS: Mapping[str, str] = {
    "Innodb_row_lock_waits": "waits for a row's lock",
    "Innodb_deadlocks": "deadlocks",
    "Slow_queries": "statements slower than long_query_time",
    "Aborted_clients": "sessions whose client vanished, or was ended",
    "Aborted_connects": "connections that failed",
    "Connection_errors_max_connections": "connections refused because there were too many",
    "Max_used_connections": "connections at once, at most",
    "Com_rollback": "transactions rolled back by a statement",
    "Created_tmp_disk_tables": "temporary tables on disk",
}
_TIMES: Mapping[str, str] = {
    "Innodb_row_lock_time_max": "longest wait for a row's lock",
    "Innodb_row_lock_time": "all waits for rows' locks together",
}
"""In milliseconds."""
_HARMFUL = ("Innodb_deadlocks", "Connection_errors_max_connections")


class InnoDBCountersDiagnostic(Diagnostic):
    """Reads the status of the whole server."""

    name = "server_counters"
    what = "waits for locks, deadlocks and refused connections"
    position = 1

    def __init__(self, since: datetime) -> None:
        """``since``: the beginning of the time that was asked for."""
        self._since = since

    def read(self, reading: Reading) -> Section:
        """Return the counters; findings if the server was started in that time: then all that it counts was in it."""
        status = {name: int(value) for name, value in reading.server.fetch(_STATUS)}
        now = datetime.now(UTC)
        started = now - timedelta(seconds=reading.state.up_s or 0.0)
        reset = now - timedelta(seconds=status.get("Uptime_since_flush_status", reading.state.up_s or 0.0))
        is_of_that_time = reset >= self._since
        rows = [(what, format_count(status[name])) for name, what in _COUNTS.items() if name in status]
        rows += [(what, format_age(status[name] / 1000)) for name, what in _TIMES.items() if name in status]
        findings = []
        if started > self._since:
            findings.append(
                Finding(
                    severity=Severity.WARNING,
                    subject=self.name,
                    about="start",
                    sentence=f"The server was started at {format_moment(started)}, after the time that was asked for.",
                    because="sessions, locks and transactions of before are gone, and the counters, too; the server's error log says why it ended",
                )
            )
        findings += [
            Finding(
                severity=Severity.WARNING,
                subject=self.name,
                about=name,
                sentence=f"{_COUNTS[name][:1].upper()}{_COUNTS[name][1:]} since {format_moment(reset)}: {status[name]:,}.",
            )
            for name in _HARMFUL
            if is_of_that_time and status.get(name)
        ]
        return Section(
            title="Counters of the server",
            columns=("what", "value"),
            rows=tuple(rows),
            sentences=(
                f"The server was started at {format_moment(started)}, and counts since {format_moment(reset)}."
                + (
                    ""
                    if is_of_that_time
                    else " How much of it was after the time asked for is not known: compare with a later report."
                ),
            ),
            findings=tuple(findings),
        )
