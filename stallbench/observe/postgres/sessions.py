"""Who is behind a process id: the details of sessions, read for few of them only."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, NamedTuple

from stallbench.observe.formatting import format_age, quote_text, shorten_text

# The server keeps the bytes that a statement had in its own database, and an error ends the query that reads them in another encoding.
_DETAILS = """
SELECT pid, coalesce(backend_type, ''), coalesce(usename, ''), coalesce(pg_stat_activity.datname, ''), coalesce(application_name, ''),
  coalesce(pg_catalog.host(client_addr), CASE WHEN backend_type = 'client backend' THEN 'local' END, ''),
  coalesce(state, ''), coalesce(wait_event, ''),
  extract(epoch FROM pg_catalog.clock_timestamp() - xact_start)::double precision,
  extract(epoch FROM pg_catalog.clock_timestamp() - state_change)::double precision,
  CASE WHEN (pg_catalog.pg_encoding_to_char(encoding) = pg_catalog.getdatabaseencoding()) IS NOT FALSE
      OR pg_catalog.getdatabaseencoding() = 'SQL_ASCII' OR query = '<insufficient privilege>'
    THEN pg_catalog.left(query, 200)
    ELSE '<not shown: it is in ' || pg_catalog.pg_encoding_to_char(encoding) || '>' END
FROM pg_catalog.pg_stat_activity LEFT JOIN pg_catalog.pg_database ON pg_database.oid = datid
WHERE pid = ANY(%s)
"""
_HIDDEN = "<insufficient privilege>"


class SessionDetails(NamedTuple):
    """A session of the server."""

    pid: int
    backend_type: str
    user: str
    database: str
    application: str
    client: str
    """Address of the client; ``local`` over a socket."""
    state: str
    wait_event: str
    transaction_s: float | None
    """Since its transaction began."""
    in_state_s: float | None
    query: str | None
    """The current statement, or the last one of an idle session."""

    @property
    def name(self) -> str:
        """Return what an engineer knows it by."""
        known = [f'"{self.application}"' if self.application else "", f"user {self.user}" if self.user else ""]
        known.append(f"from {self.client}" if self.client else "")
        kind = "session" if self.backend_type in ("client backend", "") else self.backend_type
        about = ", ".join(part for part in known if part)
        return f"{kind} {self.pid}" + (f" ({about})" if about else "")

    @property
    def doing(self) -> str:
        """Return its state, since when, and its statement."""
        if self.query == _HIDDEN or not (self.state or self.query):
            return ""
        since = f" for {format_age(self.in_state_s)}" if self.in_state_s is not None else ""
        text = shorten_text(self.query)
        last = "running" if self.state == "active" else "last statement"
        return f"{self.state or 'working'}{since}" + (f"; {last}: {text}" if text else "")

    @property
    def is_walsender(self) -> bool:
        """Whether it serves a subscriber of logical replication, or a replica."""
        return self.backend_type == "walsender"

    @property
    def is_dump(self) -> bool:
        """Whether it is a pg_dump."""
        return self.application.startswith("pg_dump")


def read_sessions(server: Any, pids: Collection[int | None]) -> dict[int, SessionDetails]:
    """Return the details of the sessions that still exist, by process id."""
    wanted = sorted({pid for pid in pids if pid})
    if not wanted:
        return {}
    return {row[0]: SessionDetails(*row) for row in server.execute(_DETAILS, (wanted,)).fetchall()}


def statement_to_terminate(pid: int) -> str:
    """Return the statement that ends a session and rolls its transaction back."""
    return f"SELECT pg_terminate_backend({pid});"


def statement_to_roll_back(gid: str) -> str:
    """Return the statement that ends a prepared transaction."""
    return f"ROLLBACK PREPARED {quote_text(gid).strip()};"
