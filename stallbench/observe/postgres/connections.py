"""Is the server running out of connections, and whose sessions take them?"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any, NamedTuple

from stallbench.base.number_text import format_count, format_plural
from stallbench.observe.diagnostic import Diagnostic, Finding, Reading, Remedy, Section, Severity
from stallbench.observe.formatting import format_age
from stallbench.observe.thresholds import ALMOST_ALL_CONNECTIONS, FEW_CONNECTIONS, MANY_CONNECTIONS
from stallbench.sql_names import quote_name, quote_text

# Who is not a member of pg_monitor sees neither type nor state of other users' sessions; of processes of the server also no user.
_SESSIONS = """
SELECT coalesce(application_name, ''), coalesce(usename, ''), coalesce(state, 'hidden'), pg_catalog.count(*)
FROM pg_catalog.pg_stat_activity
WHERE backend_type = 'client backend' OR backend_type IS NULL AND datid IS NOT NULL AND usename IS NOT NULL
GROUP BY 1, 2, 3
"""
_LIMITS = """
SELECT pg_catalog.current_setting('max_connections')::int,
  pg_catalog.current_setting('superuser_reserved_connections')::int + coalesce(pg_catalog.current_setting('reserved_connections', true)::int, 0)
"""
_WITHOUT_DUTY = """state = 'idle' AND backend_type = 'client backend' AND query NOT LIKE 'LISTEN%' AND query NOT LIKE 'listen%'
  AND pid NOT IN (SELECT pid FROM pg_catalog.pg_locks WHERE locktype = 'advisory' AND pid IS NOT NULL)"""
"""A condition on idle sessions that neither wait for notifications nor hold an advisory lock, as far as can be seen."""
_IDLE = f"""
SELECT pg_catalog.count(*), max(extract(epoch FROM pg_catalog.clock_timestamp() - state_change))::double precision,
  pg_catalog.array_agg(DISTINCT coalesce(pg_catalog.host(client_addr), 'local'))
FROM pg_catalog.pg_stat_activity
WHERE {_WITHOUT_DUTY} AND application_name = %(application)s AND usename = %(user)s
""".replace("LIKE 'LISTEN%'", "LIKE 'LISTEN%%'").replace("LIKE 'listen%'", "LIKE 'listen%%'")
_MOST_NAMED = 3


class Owner(NamedTuple):
    """Whose sessions they are."""

    application: str
    user: str

    @property
    def name(self) -> str:
        """Return what an engineer knows it by."""
        return (
            f'"{self.application}" (user {self.user})'
            if self.application
            else f"user {self.user or '?'} without an application name"
        )


class ConnectionsDiagnostic(Diagnostic):
    """Counts client sessions by their application, user and state."""

    name = "connections"
    what = "the number of connections"
    position = 80

    def read(self, reading: Reading) -> Section:
        """Return the counts, and a finding with who has most of them if few connections are left."""
        rows = [
            (Owner(application, user), state, int(count))
            for application, user, state, count in reading.server.execute(_SESSIONS).fetchall()
        ]
        ((limit, reserved),) = reading.server.execute(_LIMITS).fetchall()
        total, usable = sum(count for _, _, count in rows), limit - reserved
        states = _list_counts(rows, lambda row: row[1])
        owners = Counter[Owner]()
        for owner, _, count in rows:
            owners[owner] += count
        findings: tuple[Finding, ...] = ()
        if total >= MANY_CONNECTIONS * usable or usable - total <= FEW_CONNECTIONS:
            findings = (_judge(reading, rows, owners.most_common(1)[0], total, limit, reserved),)
        named = ", ".join(f"{owner.name}: {format_count(count)}" for owner, count in owners.most_common(_MOST_NAMED))
        sentence = (
            f"{format_plural(total, 'client session')} of {format_count(usable)} ({_describe_limit(limit, reserved)}): {states}."
        )
        return Section(
            title="Connections",
            sentences=(sentence, f"Most are those of {named}."),
            says_nothing=not findings,
            findings=findings,
        )


def _describe_limit(limit: int, reserved: int) -> str:
    return f"max_connections is {format_count(limit)}, of which {format_count(reserved)} are reserved"


def _list_counts(rows: Sequence[tuple[Owner, str, int]], key: Any) -> str:
    counts = Counter[str]()
    for row in rows:
        counts[key(row)] += row[2]
    return ", ".join(f"{format_count(count)} {name}" for name, count in counts.most_common())


def _judge(
    reading: Reading, rows: Sequence[tuple[Owner, str, int]], most: tuple[Owner, int], total: int, limit: int, reserved: int
) -> Finding:
    owner, count = most
    usable = limit - reserved
    of_owner = _list_counts([row for row in rows if row[0] == owner], lambda row: row[1])
    idle, longest_s, clients = 0, None, []
    if reading.state.sees_all:
        ((idle, longest_s, clients),) = reading.server.execute(_IDLE, owner._asdict()).fetchall()
    share = f" {format_count(count)} of them are those of {owner.name}: {of_owner}."
    if idle:
        origins = ", ".join(clients[:_MOST_NAMED]) + (", ..." if len(clients) > _MOST_NAMED else "")
        share += f" Its idle sessions, from {origins}, have done nothing for up to {format_age(longest_s)}."
    is_due_to_idle = idle > 1 and idle * 2 >= count
    return Finding(
        severity=Severity.CRITICAL
        if total >= ALMOST_ALL_CONNECTIONS * usable or usable - total <= FEW_CONNECTIONS
        else Severity.WARNING,
        subject=ConnectionsDiagnostic.name,
        about="connections",
        sentence=f"{format_plural(total, 'connection')} of {format_count(usable)} are in use ({_describe_limit(limit, reserved)}).{share}",
        because="workers that reconnect are refused",
        statement=_statement_to_end_idle(owner) if is_due_to_idle else "",
        caution=f"closes {format_plural(idle, 'idle connection')} of {owner.name}, and none that executes a statement, is in a transaction, "
        "listens or holds an advisory lock; a pool of the application opens as many again, unless its size is reduced"
        if is_due_to_idle
        else "",
        other_ways=(_limit_idle(owner),) if is_due_to_idle else (),
    )


def _statement_to_end_idle(owner: Owner) -> str:
    condition = " ".join(_WITHOUT_DUTY.replace("pg_catalog.", "").split())
    return (
        f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE {condition} "
        f"AND application_name = {quote_text(owner.application).strip()} AND usename = {quote_text(owner.user).strip()};"
    )


def _limit_idle(owner: Owner) -> Remedy:
    return Remedy(
        statement=f"ALTER ROLE {quote_name(owner.user)} SET idle_session_timeout = '10min';",
        caution=f"lets the server close each later session of user {owner.user} that is idle for longer, whatever its application; "
        "a smaller pool in the application is better",
    )
