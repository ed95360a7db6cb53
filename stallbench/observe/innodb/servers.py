"""Is the server running out of connections, and how far behind is it, if it is a replica?"""

from __future__ import annotations

from stallbench.engines.mysql import read_replica_status
from stallbench.observe.formatting import format_age, format_count, format_plural
from stallbench.observe.subject import Finding, Look, Section, Severity, Subject
from stallbench.observe.thresholds import ALMOST_ALL_CONNECTIONS

_FAR_BEHIND_S = 60.0
_CONNECTED = "SHOW GLOBAL STATUS LIKE 'Threads_connected'"


class InnoDBConnectionsSubject(Subject):
    """Counts sessions."""

    name = "connections"
    what = "the number of connections"
    position = 80

    def look(self, look: Look) -> Section:
        """Return the count in one sentence, and a finding if hardly a connection is left."""
        ((_, connected),) = look.server.fetch(_CONNECTED)
        ((limit,),) = look.server.fetch("SELECT @@max_connections")
        sentence = f"{format_plural(int(connected), 'connection')} of {format_count(limit)}."
        findings: tuple[Finding, ...] = ()
        if int(connected) >= ALMOST_ALL_CONNECTIONS * limit:
            findings = (
                Finding(
                    severity=Severity.CRITICAL,
                    subject=self.name,
                    about="connections",
                    sentence=f"Hardly a connection is left: {sentence}",
                    because="workers that reconnect are refused",
                ),
            )
        return Section(title="Connections", sentences=(sentence,), findings=findings)


class InnoDBReplicationSubject(Subject):
    """Reads the status of a replica: a primary does not know what its replicas have applied."""

    name = "replication"
    what = "replication"
    position = 70

    def look(self, look: Look) -> Section:
        """Return the state of the replica, and a finding if it does not follow or is far behind."""
        with look.server.cursor() as cursor:
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
