"""Is the server running out of connections, and how far behind is it, if it is a replica?"""

from __future__ import annotations

from stallbench.base.number_text import format_count, format_plural
from stallbench.engines.innodb.driver import read_replica_status
from stallbench.observe.diagnostic import Diagnostic, Finding, Reading, Section, Severity
from stallbench.observe.formatting import format_age
from stallbench.observe.thresholds import ALMOST_ALL_CONNECTIONS, FEW_CONNECTIONS, MANY_CONNECTIONS
from stallbench.sql_names import quote_text

_FAR_BEHIND_S = 60.0
_OWNERS = """
SELECT user, count(*) AS sessions, sum(is_idle) AS idle, max(CASE WHEN is_idle THEN time ELSE 0 END), count(DISTINCT substring_index(host, ':', 1))
FROM (
  SELECT user, time, host,
    command = 'Sleep' AND id NOT IN (SELECT trx_mysql_thread_id FROM information_schema.innodb_trx) AS is_idle
  FROM information_schema.processlist WHERE command NOT IN ('Daemon', 'Binlog Dump')
) AS session
GROUP BY user ORDER BY sessions DESC LIMIT 1
"""
_CONNECTED = "SHOW GLOBAL STATUS LIKE 'Threads_connected'"


class InnoDBConnectionsDiagnostic(Diagnostic):
    """Counts sessions, and by their user if few connections are left."""

    name = "connections"
    what = "the number of connections"
    position = 80

    def read(self, reading: Reading) -> Section:
        """Return the count in one sentence, and a finding with who has most of them if few connections are left."""
        ((_, connected),) = reading.server.fetch(_CONNECTED)
        ((limit,),) = reading.server.fetch("SELECT @@max_connections")
        total = int(connected)
        sentence = f"{format_plural(total, 'connection')} of {format_count(limit)} {'is' if total == 1 else 'are'} in use."
        findings: tuple[Finding, ...] = ()
        if total >= MANY_CONNECTIONS * limit or limit - total <= FEW_CONNECTIONS:
            findings = (_judge_connections(reading, sentence, total, int(limit)),)
        return Section(title="Connections", sentences=(sentence,), says_nothing=not findings, findings=findings)


def _judge_connections(reading: Reading, sentence: str, total: int, limit: int) -> Finding:
    share, statement, caution = "", "", ""
    # Who has no PROCESS sees only sessions of its own.
    rows = reading.server.fetch(_OWNERS) if reading.state.sees_all else []
    if rows:
        user, count, idle, longest_s, hosts = rows[0]
        share = f" {format_count(int(count))} of them are those of user {user}, {format_count(int(idle))} of which are idle outside a transaction"
        share += f", for up to {format_age(float(longest_s))}, from {format_plural(int(hosts), 'host')}." if int(idle) else "."
        if int(idle) > 1 and 2 * int(idle) >= int(count):
            statement = _list_idle(str(user))
            caution = (
                f"writes a KILL for each idle connection of user {user}, of which none is in a transaction; a pool of the application opens as many "
                "again, unless its size is reduced. wait_timeout lets the server close those that are idle for longer"
            )
    return Finding(
        severity=Severity.CRITICAL
        if total >= ALMOST_ALL_CONNECTIONS * limit or limit - total <= FEW_CONNECTIONS
        else Severity.WARNING,
        subject=InnoDBConnectionsDiagnostic.name,
        about="connections",
        sentence=f"{sentence}{share}",
        because="workers that reconnect are refused",
        statement=statement,
        caution=caution,
        only_shows=bool(statement),
    )


def _list_idle(user: str) -> str:
    return (
        "SELECT concat('KILL ', id, ';') FROM information_schema.processlist WHERE command = 'Sleep' AND user = "
        f"{quote_text(user).strip()} AND id NOT IN (SELECT trx_mysql_thread_id FROM information_schema.innodb_trx);"
    )


class InnoDBReplicationDiagnostic(Diagnostic):
    """Reads the status of a replica: a primary does not know what its replicas have applied."""

    name = "replication"
    what = "replication"
    position = 70

    def read(self, reading: Reading) -> Section:
        """Return the state of the replica, and a finding if it does not follow or is far behind."""
        with reading.server.cursor() as cursor:
            status = read_replica_status(cursor)
        if not status:
            sentence = "This server is not a replica; observe a replica to see its delay."
            return Section(title="Replication", sentences=(sentence,), says_nothing=True)
        receives, applies = status.get("replica_io_running"), status.get("replica_sql_running")
        behind_s = status.get("seconds_behind_source")
        error = status.get("last_sql_error") or status.get("last_io_error") or ""
        sentence = f"This replica: receiving {receives}, applying {applies}, behind by {format_age(behind_s)}."
        findings: tuple[Finding, ...] = ()
        if (receives, applies) != ("Yes", "Yes") or (behind_s or 0) >= _FAR_BEHIND_S:
            findings = (
                Finding(
                    severity=Severity.WARNING,
                    subject=self.name,
                    about="replica",
                    sentence=f"{sentence}{f' {error}' if error else ''}",
                ),
            )
        return Section(title="Replication", sentences=(sentence,), findings=findings)
