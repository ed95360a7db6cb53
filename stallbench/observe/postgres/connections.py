"""Is the server running out of connections, and how many sessions are idle in a transaction?"""

from __future__ import annotations

from stallbench.observe.formatting import format_count, format_plural
from stallbench.observe.subject import Finding, Look, Section, Severity, Subject
from stallbench.observe.thresholds import ALMOST_ALL_CONNECTIONS

_SESSIONS = """
SELECT coalesce(state, 'hidden'), pg_catalog.count(*), pg_catalog.current_setting('max_connections')::int
FROM pg_catalog.pg_stat_activity
WHERE backend_type = 'client backend' AND pid <> pg_catalog.pg_backend_pid()
GROUP BY 1
"""


class ConnectionsSubject(Subject):
    """Counts client sessions by their state."""

    name = "connections"
    what = "the number of connections"
    position = 80

    def look(self, look: Look) -> Section:
        """Return the counts in one sentence, and a finding if hardly a connection is left."""
        # A user without pg_monitor sees neither type nor state of other users' sessions.
        rows = look.server.execute(_SESSIONS).fetchall()
        total, limit = sum(count for _, count, _ in rows), rows[0][2] if rows else 0
        states = ", ".join(f"{format_count(count)} {state}" for state, count, _ in sorted(rows, key=lambda row: -row[1]))
        findings: tuple[Finding, ...] = ()
        if limit and total >= ALMOST_ALL_CONNECTIONS * limit:
            findings = (
                Finding(
                    severity=Severity.CRITICAL,
                    subject=self.name,
                    about="connections",
                    sentence=f"{format_plural(total, 'connection')} of {format_count(limit)} are in use: {states}.",
                    because="workers that reconnect are refused",
                ),
            )
        seen = "" if look.known.sees_all else " that this user may see"
        return Section(
            title="Connections",
            sentences=(
                f"{format_plural(total, 'client session')}{seen}" + (f" of {format_count(limit)}: {states}." if rows else "."),
            ),
            findings=findings,
        )
