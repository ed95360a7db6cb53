"""Which long operations run: base backups, dumps, index builds, vacuums, rewrites, refreshes, copies? What does an index build wait for?"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from stallbench.base.number_text import format_bytes
from stallbench.observe.diagnostic import Diagnostic, Finding, Reading, Remedy, Section, Severity
from stallbench.observe.formatting import format_age
from stallbench.observe.lock_waits import LockWaits, Session
from stallbench.observe.postgres.blocking import describe_session, end_head
from stallbench.observe.postgres.sessions import SessionDetails, read_sessions
from stallbench.observe.thresholds import BRIEF_S

_INDEX_BUILDS = """
SELECT progress.pid, command, phase, current_locker_pid, lockers_done, lockers_total,
  CASE WHEN progress.datid = (SELECT oid FROM pg_catalog.pg_database WHERE datname = pg_catalog.current_database())
    THEN relid::pg_catalog.regclass::pg_catalog.text END,
  CASE WHEN blocks_total > 0 THEN blocks_done::double precision / blocks_total END
FROM pg_catalog.pg_stat_progress_create_index AS progress
"""
_BACKUPS = "SELECT pid, phase, backup_total, backup_streamed FROM pg_catalog.pg_stat_progress_basebackup"
_VACUUMS = """
SELECT pid, phase, CASE WHEN datname = pg_catalog.current_database() THEN relid::pg_catalog.regclass::pg_catalog.text END,
  CASE WHEN heap_blks_total > 0 THEN heap_blks_scanned::double precision / heap_blks_total END
FROM pg_catalog.pg_stat_progress_vacuum
"""
_REWRITES = """
SELECT pid, command || ': ' || phase, CASE WHEN datname = pg_catalog.current_database() THEN relid::pg_catalog.regclass::pg_catalog.text END
FROM pg_catalog.pg_stat_progress_cluster
"""
_DUMPS = """
SELECT pid FROM pg_catalog.pg_stat_activity
WHERE backend_type = 'client backend' AND (application_name LIKE 'pg\\_dump%' OR query LIKE 'COPY % TO stdout%' AND state = 'active')
"""
_COPIES = """
SELECT pid, command, CASE WHEN datname = pg_catalog.current_database() THEN relid::pg_catalog.regclass::pg_catalog.text END,
  bytes_processed, bytes_total
FROM pg_catalog.pg_stat_progress_copy
"""
# Statements that the progress views leave out; what waits for a lock is shown among the blocked sessions.
_RUNNING = """
SELECT pid FROM pg_catalog.pg_stat_activity
WHERE backend_type = 'client backend' AND state = 'active' AND wait_event_type IS DISTINCT FROM 'Lock' AND pid <> pg_catalog.pg_backend_pid()
AND query_start < pg_catalog.clock_timestamp() - pg_catalog.make_interval(secs => %(brief_s)s)
LIMIT 100
"""
_WITHOUT_PROGRESS = frozenset(
    {"REFRESH MATERIALIZED VIEW", "CREATE MATERIALIZED VIEW", "ALTER TABLE", "CREATE TABLE", "VACUUM FULL", "CLUSTER", "REINDEX"}
)


class OperationsDiagnostic(Diagnostic):
    """Reads the server's progress views, and recognises dumps by their application name or their COPY, and what has no such view by its statement."""

    name = "operations"
    what = "long operations"
    position = 45

    def read(self, reading: Reading) -> Section:
        """Return every operation that runs, and a finding for each index build that waits for other sessions."""
        server = reading.server
        builds, backups = server.execute(_INDEX_BUILDS).fetchall(), server.execute(_BACKUPS).fetchall()
        vacuums, rewrites = server.execute(_VACUUMS).fetchall(), server.execute(_REWRITES).fetchall()
        dumps = server.execute(_DUMPS).fetchall()
        is_dump = {pid for (pid,) in dumps}
        copies = [row for row in server.execute(_COPIES).fetchall() if row[0] not in is_dump]
        found = {row[0] for row in (*builds, *backups, *vacuums, *rewrites, *dumps, *copies)}
        running = [pid for (pid,) in server.execute(_RUNNING, {"brief_s": BRIEF_S}).fetchall() if pid not in found]
        # Who may not see another user's session sees neither what its index build does nor what it waits for.
        waiting = [row for row in builds if row[2] and row[2].startswith("waiting for")]
        waits = reading.state.lock_waits
        # Of a prepared transaction the progress view has no process id, or that of the session that prepared it, which may have ended.
        lockers = {row[0]: _find_locker(row[0], row[3], waits) for row in waiting}
        ends = [head for locker in lockers.values() for head in _list_ends(locker, waits)]
        pids = [*found, *running, *(one for one in (*lockers.values(), *ends) if isinstance(one, int))]
        sessions = read_sessions(server, pids)
        rows = [
            _row(f"base backup: {phase or 'unknown'}", pid, sessions, _format_backup(done, total))
            for pid, phase, total, done in backups
        ]
        rows += [_row("pg_dump, or another COPY to a client", pid, sessions, "") for (pid,) in dumps]
        rows += [
            _row(
                f"{command or 'index build'} on {table or 'an unknown table'}: {phase or 'unknown'}",
                pid,
                sessions,
                _format_share(share),
            )
            for pid, command, phase, _, _, _, table, share in builds
        ]
        rows += [
            _row(f"{phase or 'rewrite'} of {table or 'a table that cannot be named here'}", pid, sessions, "")
            for pid, phase, table in rewrites
        ]
        rows += [
            _row(
                f"vacuum of {table or 'a table that cannot be named here'}: {phase or 'unknown'}",
                pid,
                sessions,
                _format_share(share),
            )
            for pid, phase, table, share in vacuums
        ]
        rows += [
            _row(
                f"{command or 'COPY'}: {table or 'a query, or a table that cannot be named here'}",
                pid,
                sessions,
                _format_backup(done, total),
            )
            for pid, command, table, done, total in copies
        ]
        rows += [
            _row(sessions[pid].command, pid, sessions, "")
            for pid in running
            if pid in sessions and sessions[pid].command in _WITHOUT_PROGRESS
        ]
        return Section(
            title="Long operations",
            columns=("operation", "session", "since", "done") if rows else (),
            rows=tuple(rows),
            sentences=_describe_rest(bool(rows), sees_all=reading.state.sees_all),
            says_nothing=not rows,
            findings=tuple(_judge_waiting(row, lockers[row[0]], waits, sessions) for row in waiting),
        )


def _describe_rest(is_any_running: bool, *, sees_all: bool) -> tuple[str, ...]:
    """Return what is not running. Who may not see other users' sessions sees other operations in the progress views, but no dump."""
    if is_any_running:
        return () if sees_all else ("Dumps, copies, rewrites and refreshes of other users are hidden from this user.",)
    others = "dump, COPY, rewrite of a table or REFRESH MATERIALIZED VIEW"
    if sees_all:
        return (f"No base backup, index build, vacuum, {others} is running, unless a function executes it.",)
    return (f"No base backup, index build or vacuum is running, and no {others} that this user may see.",)


def _find_locker(build: int, current: int | None, waits: LockWaits) -> Session:
    """Return for whom an index build waits, ``current`` if its wait is not seen; 0 if that is not known."""
    wait = waits.by_session.get(build)
    return wait.blockers[0] if wait and wait.blockers else current or 0


def _list_ends(locker: Session, waits: LockWaits) -> list[Session]:
    """Return who is to be ended: the locker itself, or whom it waits for."""
    return waits.find_heads(locker) if locker in waits.by_session else [locker]


def _judge_waiting(row: tuple[Any, ...], locker: Session, waits: LockWaits, sessions: Mapping[int, SessionDetails]) -> Finding:
    """``row``: of an index build."""
    pid, command, _, _, done, total, table, _ = row
    build, blocker = sessions.get(pid), sessions.get(locker) if isinstance(locker, int) else None
    named = describe_session(locker, sessions) if locker != 0 else "another transaction"
    doing = f" ({blocker.doing})" if blocker and blocker.doing else ""
    ends = _list_ends(locker, waits)
    if ends and ends != [locker]:
        doing += f", which itself waits for {describe_session(ends[0], sessions)}"
    is_known = bool(ends) and (isinstance(ends[0], str) or ends[0] in sessions)
    remedy = end_head(ends[0], waits, sessions) if is_known else Remedy()
    return Finding(
        severity=Severity.WARNING,
        subject=OperationsDiagnostic.name,
        about=str(pid),
        sentence=f"{command} on {table or 'a table'} (session {pid}, running for {format_age(build.in_state_s if build else None)}) "
        f"waits for {named}{doing}; {done} of {total} such transactions have ended.",
        because="until then its index costs writes, and serves no query",
        statement=remedy.statement,
        where=remedy.where,
        caution=remedy.caution,
    )


def _row(what: str, pid: int, sessions: Mapping[int, SessionDetails], done: str) -> tuple[str, ...]:
    session = sessions.get(pid)
    age_s = session.transaction_s if session and session.transaction_s is not None else session.in_state_s if session else None
    return what, session.name if session else f"session {pid}", format_age(age_s) if age_s is not None else "", done


def _format_share(share: float | None) -> str:
    return "" if share is None else f"{100 * share:.0f} %"


def _format_backup(done: int, total: int | None) -> str:
    return f"{format_bytes(done)} of {format_bytes(total)}" if total else format_bytes(done)
