"""Who is behind a process id: the details of sessions, read for few of them only."""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import Any, NamedTuple

from stallbench.engines.postgres.ending import statement_to_roll_back, statement_to_terminate
from stallbench.engines.postgres.literals import LITERALS
from stallbench.observe.diagnostic import Remedy
from stallbench.observe.formatting import format_age, shorten_text
from stallbench.sql_names import quote_text

# The server keeps the bytes that a statement had in its own database, and an error ends the query that reads them in another encoding.
_DETAILS = """
SELECT pid, coalesce(backend_type, ''), coalesce(usename, ''),
  coalesce(nullif(pg_stat_activity.datname, pg_catalog.current_database()), ''), coalesce(application_name, ''),
  coalesce(pg_catalog.host(client_addr), CASE WHEN backend_type = 'client backend' THEN 'local' END, ''),
  coalesce(state, ''), coalesce(wait_event, ''),
  extract(epoch FROM pg_catalog.clock_timestamp() - xact_start)::double precision,
  extract(epoch FROM pg_catalog.clock_timestamp() - state_change)::double precision,
  CASE WHEN (pg_catalog.pg_encoding_to_char(encoding) = pg_catalog.getdatabaseencoding()) IS NOT FALSE
      OR pg_catalog.getdatabaseencoding() = 'SQL_ASCII' OR query = '<insufficient privilege>'
    THEN pg_catalog.left(query, 200)
    ELSE '<not shown: it is in ' || pg_catalog.pg_encoding_to_char(encoding) || '>' END,
  coalesce(wait_event_type, ''), backend_xid IS NOT NULL, xact_start < query_start
FROM pg_catalog.pg_stat_activity LEFT JOIN pg_catalog.pg_database ON pg_database.oid = datid
WHERE pid = ANY(%s)
"""
AWAITS_STANDBY = "committed here and waiting for a synchronous standby"
_HIDDEN = "<insufficient privilege>"
_OF_USERS = ("client backend", "walsender", "autovacuum worker", "")
"""Kinds of processes that may be ended; the type of another user's is hidden."""
_AGAINST_WRAPAROUND = "(to prevent wraparound)"
_WHO_MAY_CANCEL = "only a superuser may, and from PostgreSQL 18 on a member of pg_signal_autovacuum_worker"
_READS = frozenset({"SELECT", "WITH", "TABLE", "VALUES", "FETCH", "SHOW", "EXPLAIN", "COPY"})
"""Commands that leave nothing unfinished when they have written nothing and are cancelled."""
_COMMENTS = re.compile(r"^(?:\s|/\*.*?\*/|--[^\n]*(?:\n|$))+", re.DOTALL)
_COMMANDS = tuple(
    tuple(command.split())
    for command in (
        "REFRESH MATERIALIZED VIEW",
        "ALTER MATERIALIZED VIEW",
        "DROP MATERIALIZED VIEW",
        "CREATE MATERIALIZED VIEW",
        "CREATE UNIQUE INDEX CONCURRENTLY",
        "CREATE INDEX CONCURRENTLY",
        "CREATE UNIQUE INDEX",
        "DROP INDEX CONCURRENTLY",
        "VACUUM FULL",
        "LOCK TABLE",
        *(
            f"{verb} {kind}"
            for verb in ("ALTER", "CREATE", "DROP")
            for kind in ("TABLE", "INDEX", "SEQUENCE", "TRIGGER", "VIEW", "TYPE")
        ),
    )
)


class SessionDetails(NamedTuple):
    """A session of the server."""

    pid: int
    backend_type: str
    user: str
    database: str
    """Empty if it is the one in which the details were read."""
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
    wait_event_type: str = ""
    has_written: bool = False
    """Whether its transaction has written something."""
    is_in_block: bool | None = None
    """Whether its transaction began before its current statement; none if it has no transaction, or if that is hidden."""

    @property
    def name(self) -> str:
        """Return what an engineer knows it by."""
        known = [f'"{self.application}"' if self.application else "", f"user {self.user}" if self.user else ""]
        known += [f"from {self.client}" if self.client else "", f"database {self.database}" if self.database else ""]
        kind = "session" if self.backend_type in ("client backend", "") else self.backend_type
        about = ", ".join(part for part in known if part)
        return f"{kind} {self.pid}" + (f" ({about})" if about else "")

    @property
    def awaits_standby(self) -> bool:
        """Whether its transaction is committed on this server, and waits until a synchronous standby has it, too.

        Nothing can undo it any more. Who cancels or ends the session only ends the wait.
        """
        return self.wait_event == "SyncRep"

    @property
    def doing(self) -> str:
        """Return its state, since when, and its statement."""
        if self.query == _HIDDEN or not (self.state or self.query):
            return ""
        since = f" for {format_age(self.in_state_s)}" if self.in_state_s is not None else ""
        text = shorten_text(self.query, LITERALS)
        if self.awaits_standby:
            return f"{AWAITS_STANDBY}{since}" + (f"; running: {text}" if text else "")
        last = "running" if self.state == "active" else "last statement"
        return f"{self.state or 'working'}{since}" + (f"; {last}: {text}" if text else "")

    @property
    def is_hidden(self) -> bool:
        """Whether this user may not see what it does."""
        return self.query == _HIDDEN or (not self.state and self.backend_type in ("client backend", ""))

    @property
    def command(self) -> str:
        """Return which kind of statement it executes, like ``ALTER TABLE``; ``statement`` if that is not known."""
        return "statement" if self.is_hidden else name_command(self.query or "")

    @property
    def is_walsender(self) -> bool:
        """Whether it serves a subscriber of logical replication, or a replica."""
        return self.backend_type == "walsender"

    @property
    def is_autovacuum(self) -> bool:
        """Whether it is a worker of autovacuum."""
        return self.backend_type == "autovacuum worker"

    @property
    def can_be_cancelled(self) -> bool:
        """Whether it executes a statement whose end is enough. One that sends to its client or reads from it does not answer to a cancellation."""
        is_plain = not self.is_dump and not self.is_walsender and self.wait_event_type != "Client"
        return self.is_autovacuum or (self.state == "active" and is_plain)

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


def name_command(statement: str) -> str:
    """Return which kind of statement it is, like ``ALTER TABLE`` or ``UPDATE``; ``statement`` if that is not known."""
    words = _COMMENTS.sub("", statement).upper().split(maxsplit=4)
    for command in _COMMANDS:
        if words[: len(command)] == list(command):
            return " ".join(command)
    return words[0] if words and words[0].isalpha() else "statement"


def end_session(pid: int, session: SessionDetails | None, *, advisory: str = "") -> Remedy:
    """Return the statement that ends what a session holds, and no more than is needed, with what else that does; none for a process of the server.

    ``advisory``: the key, if what it holds is an advisory lock, which the end of a statement may leave.
    """
    if session and session.backend_type not in _OF_USERS:
        return Remedy()
    if session and session.awaits_standby:
        return commit_without_standby()
    if session and session.can_be_cancelled and not advisory:
        return Remedy(statement=statement_to_cancel(pid), caution=_describe_cancellation(session))
    return Remedy(statement=statement_to_terminate(pid), caution=_describe_end(session))


def commit_without_standby() -> Remedy:
    """Return the statement that lets commits return although no synchronous standby confirms them."""
    return Remedy(
        statement="ALTER SYSTEM SET synchronous_standby_names = ''; SELECT pg_reload_conf();",
        caution="lets every commit return without a standby, so that what is committed from then on is lost with this server; to start the "
        "standby again is better. Cancelling the sessions undoes nothing: they are committed on this server",
    )


def _describe_end(session: SessionDetails | None) -> str:
    if session is None or session.is_hidden:
        return "closes its connection, and rolls its transaction back if it has one"
    if session.is_dump:
        return "aborts the dump"
    if session.is_walsender:
        return "aborts the copy; a subscriber begins it again"
    if session.transaction_s is None:
        return "closes its connection; it has no transaction, so no change is undone"
    return "rolls its transaction back and closes its connection"


def _describe_cancellation(session: SessionDetails) -> str:
    if session.is_autovacuum:
        if _AGAINST_WRAPAROUND in (session.query or ""):
            return f"ends this vacuum, which protects the server from wraparound: autovacuum begins it again within a minute; {_WHO_MAY_CANCEL}"
        return f"ends this vacuum; autovacuum begins it again; {_WHO_MAY_CANCEL}"
    if session.is_in_block and session.has_written:
        return (
            f"ends its {session.command} and rolls its transaction back; its connection stays "
            "(a transaction with savepoints may stay, too: then pg_terminate_backend)"
        )
    if session.has_written:
        return f"ends its {session.command} and undoes what that has written; its connection stays"
    lost = "of which only the result is lost" if session.command in _READS else "which must be repeated"
    return f"ends its {session.command}, {lost}; its connection stays"


def statement_to_cancel(pid: int) -> str:
    """Return the statement that ends what a session executes, and leaves its connection."""
    return f"SELECT pg_cancel_backend({pid});"


def end_prepared(gid: str, *, commits: bool = False) -> Remedy:
    """Return the statement that ends a prepared transaction, or ``commits`` it, with what else that does; none if its name is not known."""
    if not gid:
        return Remedy()
    if commits:
        return Remedy(
            statement=f"COMMIT PREPARED {quote_text(gid).strip()};",
            caution="keeps what it has written, and ends what it holds as well",
        )
    return Remedy(
        statement=statement_to_roll_back(gid),
        caution="discards what it has written: ask the transaction manager first whether it was to be committed (COMMIT PREPARED)",
    )
