"""Which long operations run: base backups, dumps, index builds, vacuums, rewrites of tables? What does an index build wait for?"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from stallbench.collectors.locks import BlockedSession, read_blocked
from stallbench.observe.formatting import format_age, format_bytes
from stallbench.observe.postgres.sessions import SessionDetails, read_sessions, statement_to_roll_back, statement_to_terminate
from stallbench.observe.subject import Finding, Look, Section, Severity, Subject

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


class OperationsSubject(Subject):
    """Reads the server's progress views, and recognises dumps by their application name or their COPY."""

    name = "operations"
    what = "long operations"
    position = 45

    def look(self, look: Look) -> Section:
        """Return every operation that runs, and a finding for each index build that waits for other sessions."""
        server = look.server
        builds, backups = server.execute(_INDEX_BUILDS).fetchall(), server.execute(_BACKUPS).fetchall()
        vacuums, rewrites = server.execute(_VACUUMS).fetchall(), server.execute(_REWRITES).fetchall()
        dumps = server.execute(_DUMPS).fetchall()
        found = (*builds, *backups, *vacuums, *rewrites, *dumps)
        # Who may not see another user's session sees neither what its index build does nor what it waits for.
        waiting = [row for row in builds if row[2] and row[2].startswith("waiting for")]
        blocked = read_blocked(server) if waiting else []
        blockers = {one.pid: one for one in blocked}
        # Of a prepared transaction the progress view has no process id, or that of the session that prepared it, which may have ended.
        lockers = {row[0]: blockers[row[0]].blocker_pid if row[0] in blockers else row[3] for row in waiting}
        gids = {pid: one.prepared_gid for pid, one in blockers.items() if one.blocker_pid == 0}
        heads = _find_heads(blocked, lockers.values())
        sessions = read_sessions(server, [row[0] for row in found] + list(lockers.values()) + list(heads.values()))
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
        return Section(
            title="Long operations",
            columns=("operation", "session", "since", "done") if rows else (),
            rows=tuple(rows),
            sentences=_describe_rest(bool(rows), sees_all=look.known.sees_all),
            says_nothing=not rows,
            findings=tuple(
                _judge_waiting(sessions, heads, pid, command, lockers[pid], gids.get(pid), done, total, table)
                for pid, command, _, _, done, total, table, _ in waiting
            ),
        )


def _describe_rest(is_any_running: bool, *, sees_all: bool) -> tuple[str, ...]:
    """Return what is not running. Who may not see other users' sessions sees other operations in the progress views, but no dump."""
    if is_any_running:
        return () if sees_all else ("Dumps of other users are hidden from this user.",)
    if sees_all:
        return ("No base backup, dump, index build, vacuum or rewrite of a table is running.",)
    return ("No base backup, index build, vacuum or rewrite of a table is running, and no dump that this user may see.",)


def _find_heads(blocked: Sequence[BlockedSession], lockers: Iterable[int | None]) -> dict[int, int]:
    """Return, for each of ``lockers`` that itself waits for a lock, the session at the head of its chain; 0: a prepared transaction."""
    blocker_of = {one.pid: one.blocker_pid for one in blocked}
    heads: dict[int, int] = {}
    for locker in lockers:
        head, passed = locker or 0, set[int]()
        while head in blocker_of and head not in passed:
            passed.add(head)
            head = blocker_of[head]
        if locker and head != locker:
            heads[locker] = head
    return heads


def _judge_waiting(
    sessions: Mapping[int, SessionDetails],
    heads: Mapping[int, int],
    pid: int,
    command: str,
    locker: int,
    gid: str | None,
    done: int,
    total: int,
    table: str | None,
) -> Finding:
    build, blocker = sessions.get(pid), sessions.get(locker)
    for_s = build.in_state_s if build else None
    named = blocker.name if blocker else f"session {locker}" if locker else "another transaction"
    if gid is not None:
        named = f"prepared transaction {gid or 'of unknown name'}"
    doing = f" ({blocker.doing})" if blocker and blocker.doing else ""
    end = locker
    if locker in heads:
        end = heads[locker]
        first = sessions[end].name if end in sessions else f"session {end}" if end else "a prepared transaction"
        doing += f", which itself waits for {first}"
    return Finding(
        severity=Severity.WARNING,
        subject=OperationsSubject.name,
        about=str(pid),
        sentence=f"{command} on {table or 'a table'} (session {pid}, running for {format_age(for_s)}) waits for {named}{doing}; "
        f"{done} of {total} such transactions have ended.",
        because="until then its index costs writes, and serves no query",
        statement=statement_to_terminate(end) if end in sessions else statement_to_roll_back(gid) if gid else "",
        caution="rolls its transaction back and closes its connection"
        if end in sessions
        else "rolls its transaction back"
        if gid
        else "",
    )


def _row(what: str, pid: int, sessions: Mapping[int, SessionDetails], done: str) -> tuple[str, ...]:
    session = sessions.get(pid)
    age_s = session.transaction_s if session and session.transaction_s is not None else session.in_state_s if session else None
    return what, session.name if session else f"session {pid}", format_age(age_s) if age_s is not None else "", done


def _format_share(share: float | None) -> str:
    return "" if share is None else f"{100 * share:.0f} %"


def _format_backup(done: int, total: int | None) -> str:
    return f"{format_bytes(done)} of {format_bytes(total)}" if total else format_bytes(done)
