"""Does a transaction with too many subtransactions make every session look them up, and which transaction is it?

A snapshot lists up to 64 subtransactions (savepoints, blocks with an exception handler) of each open transaction. If one transaction has more, every
session looks up in ``pg_subtrans`` to which transaction each recent row version belongs.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from stallbench.base.number_text import format_count
from stallbench.engines.postgres.collectors.slru import read_lookups
from stallbench.engines.postgres.ending import statement_to_terminate
from stallbench.observe.diagnostic import Diagnostic, Finding, Reading, Remedy, Section, Severity
from stallbench.observe.formatting import capitalize_first, format_age
from stallbench.observe.postgres.sessions import SessionDetails, read_sessions
from stallbench.observe.thresholds import BRIEF_S

MANY_PER_S = 1_000.0
"""A server without such a transaction looks up a few when sessions wait for each other's rows."""
VERY_MANY_PER_S = 100_000.0
"""So many take a considerable part of a core, and a lock that all sessions share."""
MOST_LISTED = 64
"""Subtransactions of a transaction that a snapshot lists."""
_MOST_NAMED = 3
_FIRST_VERSION_WITH_COUNTS = 160_000
_OVERFLOWED = """
SELECT pg_catalog.pg_stat_get_backend_pid(backend.id), counted.subxact_count
FROM pg_catalog.pg_stat_get_backend_idset() AS backend (id), pg_catalog.pg_stat_get_backend_subxact(backend.id) AS counted
WHERE counted.subxact_overflowed
ORDER BY 1
"""
# Before version 16: an open subtransaction has a lock on its own transaction id; one that was released has none, but counts until its transaction ends.
_OPEN = f"""
SELECT pid, pg_catalog.count(*) FROM pg_catalog.pg_locks
WHERE locktype = 'transactionid' AND mode = 'ExclusiveLock' AND granted AND pid IS NOT NULL
GROUP BY pid
HAVING pg_catalog.count(*) > {MOST_LISTED}
ORDER BY 1
"""
_CANDIDATES = f"""
SELECT pid, NULL FROM pg_catalog.pg_stat_activity
WHERE backend_xid IS NOT NULL AND pid <> pg_catalog.pg_backend_pid()
AND xact_start < pg_catalog.clock_timestamp() - pg_catalog.make_interval(secs => {BRIEF_S})
ORDER BY xact_start
LIMIT {_MOST_NAMED + 1}
"""


class SubtransactionsDiagnostic(Diagnostic):
    """Compares the server's count of look-ups between two readings; only if there are many it searches the transaction."""

    name = "subtransactions"
    what = "look-ups of subtransactions"
    position = 42

    def __init__(self) -> None:
        """Know no earlier count."""
        self._last: tuple[float, int] | None = None

    def read(self, reading: Reading) -> Section:
        """Return a finding for each transaction that causes the look-ups, or one with the transactions that may cause them."""
        lookups = read_lookups(reading.server).subtransactions
        before, self._last = self._last, (reading.at_s, lookups)
        per_s = (lookups - before[1]) / (reading.at_s - before[0]) if before and reading.at_s > before[0] else 0.0
        if per_s < MANY_PER_S:
            return Section(title="")
        if reading.state.is_replica:
            return Section(title="", findings=(_judge(per_s, "", "The transaction is on the primary: observe that."),))
        found, is_certain = _find(reading)
        sessions = read_sessions(reading.server, [pid for pid, _ in found])
        if is_certain:
            return Section(title="", findings=tuple(_blame(per_s, pid, count, sessions.get(pid)) for pid, count in found))
        return Section(title="", findings=(_suspect(per_s, [sessions[pid] for pid, _ in found if pid in sessions], reading),))


def _find(reading: Reading) -> tuple[Sequence[tuple[Any, ...]], bool]:
    """Return the process ids of the sessions, with the number of subtransactions if it is known, and whether each of them is to blame."""
    if reading.server.version >= _FIRST_VERSION_WITH_COUNTS:
        return reading.server.execute(_OVERFLOWED).fetchall(), True
    is_open = reading.server.execute(_OPEN).fetchall()
    return (is_open, True) if is_open else (reading.server.execute(_CANDIDATES).fetchall(), False)


def _blame(per_s: float, pid: int, count: int, session: SessionDetails | None) -> Finding:
    name = capitalize_first(session.name) if session else f"Session {pid}"
    doing = f" It is {session.doing}." if session and session.doing else ""
    more = f"more than {MOST_LISTED}" if count <= MOST_LISTED else format_count(count)
    return _judge(
        per_s,
        str(pid),
        f"{name} has {more} subtransactions (savepoints, or blocks with an exception handler) in one transaction.{doing}",
        statement_to_terminate(pid),
    )


def _suspect(per_s: float, sessions: Sequence[SessionDetails], reading: Reading) -> Finding:
    hidden = "" if reading.state.sees_all else ", or one that this user may not see"
    if not sessions:
        return _judge(per_s, "", f"The transaction has ended by now{hidden}.")
    named = "; ".join(f"{one.name}, in a transaction for {format_age(one.transaction_s)}" for one in sessions[:_MOST_NAMED])
    more = "; or a younger one" if len(sessions) > _MOST_NAMED else ""
    only = "the only one that has written is" if len(sessions) == 1 and not hidden else "it is one of those that have written"
    return _judge(
        per_s,
        "",
        f"PostgreSQL {reading.server.version // 10_000} does not say which transaction that is; {only}: {named}{more}{hidden}.",
        *[statement_to_terminate(one.pid) for one in sessions[:_MOST_NAMED]],
    )


def _judge(per_s: float, about: str, sentence: str, *statements: str) -> Finding:
    caution = "rolls its transaction back and closes its connection" + ("" if len(statements) <= 1 else ", if it is that one")
    first, *others = statements or [""]
    return Finding(
        severity=Severity.CRITICAL if per_s >= VERY_MANY_PER_S else Severity.WARNING,
        subject=SubtransactionsDiagnostic.name,
        about=about or "lookups",
        sentence=f"Sessions look up subtransactions {format_count(per_s)} times/s, because a transaction has more than {MOST_LISTED} of them. "
        f"{sentence}",
        because="each look-up takes a lock that all sessions share, so every query becomes slower until that transaction ends",
        statement=first,
        caution=caution if first else "",
        other_ways=tuple(Remedy(statement=statement, caution=caution) for statement in others),
    )
