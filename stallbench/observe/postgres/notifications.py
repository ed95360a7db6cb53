"""How full is the notification queue (LISTEN, NOTIFY), and which client does not read?"""

from __future__ import annotations

from collections.abc import Sequence

from stallbench.base.number_text import format_bytes, format_plural
from stallbench.engines.postgres.collectors.notifications import StuckClient, StuckClients, read_notification_queue
from stallbench.engines.postgres.ending import statement_to_terminate
from stallbench.observe.diagnostic import Diagnostic, Finding, Reading, Remedy, Section, Severity
from stallbench.observe.formatting import format_age
from stallbench.observe.postgres.sessions import SessionDetails, end_session, read_sessions

_HALF = 0.5
_FILLING = 0.01
_BACKLOG_BYTES = 65_536
"""What is there of a queue that listeners read is less than a few pages."""
LISTENER_TRANSACTION_S = 10.0
"""A transaction in which a listener misses notifications for so long can be what holds the queue back."""
_MOST_NAMED = 3
# A LISTEN counts from the end of its transaction on.
_IN_TRANSACTION = """
SELECT pid::pg_catalog.text || ':' || extract(epoch FROM backend_start)::bigint, pid,
  extract(epoch FROM pg_catalog.clock_timestamp() - xact_start)::double precision,
  state = 'idle' AND (query LIKE 'LISTEN %' OR query LIKE 'listen %')
FROM pg_catalog.pg_stat_activity
WHERE backend_type = 'client backend' AND pid <> pg_catalog.pg_backend_pid()
AND (xact_start IS NOT NULL OR query LIKE 'LISTEN %' OR query LIKE 'listen %')
"""


class NotificationsDiagnostic(Diagnostic):
    """Reads the queue's usage and the sessions that wait for their client to read."""

    name = "notifications"
    what = "the notification queue and clients that do not read"
    position = 50

    def __init__(self) -> None:
        """Know no stuck client."""
        self._stuck = StuckClients()
        self._filling_since_s: float | None = None
        self._last_share = 0.0
        self._listening: set[str] = set()
        """The sessions that were seen to listen."""

    def read(self, reading: Reading) -> Section:
        """Return the usage in one sentence, and a finding for each session whose client has not read since the last reading."""
        queue = read_notification_queue(reading.server)
        stuck = self._stuck.read(reading.server)
        sessions = read_sessions(reading.server, [one.pid for one in stuck])
        share = f"{100 * queue.share:.2g} % full" if queue.share else "empty"
        used = f" ({format_bytes(queue.share * queue.limit_bytes)} of {format_bytes(queue.limit_bytes)})" if queue.share else ""
        waiting = f" {format_plural(queue.lock_waits, 'commit')} with a NOTIFY wait for another one." if queue.lock_waits else ""
        seen = "" if reading.state.sees_all else ", of those that this user may see"
        is_filling = queue.share * queue.limit_bytes >= _BACKLOG_BYTES
        if not is_filling or queue.share < self._last_share or self._filling_since_s is None:
            self._filling_since_s = reading.at_s if is_filling else None
        self._last_share = queue.share
        suspects = self._find_suspects(reading) if reading.state.sees_all else []
        findings = [_judge(one, sessions.get(one.pid), queue.share, listens=self._listens(one)) for one in stuck]
        if queue.share >= _HALF or (is_filling and not stuck and (suspects or queue.share >= _FILLING)):
            findings.append(_judge_queue(f"The notification queue is {share}{used}", queue.share, suspects))
        return Section(
            title="Notifications",
            sentences=(
                f"The notification queue is {share}{used}.{waiting} {format_plural(len(stuck), 'client')} not reading{seen}.",
            ),
            says_nothing=not queue.share and not stuck and not queue.lock_waits,
            findings=tuple(findings),
        )

    def _listens(self, one: StuckClient) -> bool:
        """Whether it is notifications that its client does not read: an idle session sends nothing else."""
        return one.state == "idle" or one.key in self._listening

    def _find_suspects(self, reading: Reading) -> list[SessionDetails]:
        """Return the sessions that may hold the queue back, if one of them has done so for long.

        A listener reads no notifications in a transaction. Since the queue was first seen to fill, the one that holds it back has been in the same.
        The server does not say who listens. Of several, those alone are returned that were seen with a LISTEN that has ended.
        """
        rows = reading.server.execute(_IN_TRANSACTION).fetchall()
        self._listening |= {key for key, _, _, has_listened in rows if has_listened}
        if self._filling_since_s is None:
            return []
        for_s = reading.at_s - self._filling_since_s
        in_transaction = [(key, pid) for key, pid, age_s, _ in rows if age_s is not None and age_s >= for_s]
        listening = [(key, pid) for key, pid in in_transaction if key in self._listening]
        sessions = read_sessions(reading.server, [pid for _, pid in listening or in_transaction])
        # A dump reads, and does not listen. But every user names his sessions, so beside one that is named like a dump no other is the only suspect.
        suspects = sorted(sessions.values(), key=lambda one: (one.is_dump, -(one.transaction_s or 0.0)))
        if all(one.is_dump for one in suspects):
            return []
        return suspects if suspects and (suspects[0].transaction_s or 0.0) >= LISTENER_TRANSACTION_S else []


def _judge_queue(filled: str, share: float, suspects: Sequence[SessionDetails]) -> Finding:
    """``filled``: the beginning of the sentence."""
    remedy = Remedy()
    if not suspects:
        why = ": a session that listens does not read, or has been in a transaction for long"
    elif len(suspects) == 1:
        (one,) = suspects
        remedy = end_session(one.pid, one)
        why = (
            f", and {one.name} holds it back: no other session has been in one transaction since the queue began to fill, and in a transaction nothing is read"
            f" ({one.doing})"
        )
    else:
        names = "; ".join(f"{one.name}, {one.doing}" for one in suspects[:_MOST_NAMED])
        more = f"; and {len(suspects) - _MOST_NAMED} more" if len(suspects) > _MOST_NAMED else ""
        why = (
            f", and one of {len(suspects)} sessions holds it back, which listens and has been in one transaction since the queue began to fill; the server "
            f"does not say which, until the queue is half full (in its log: 'The server process with PID ..'): {names}{more}"
        )
    return Finding(
        severity=Severity.CRITICAL if share >= _HALF else Severity.WARNING,
        subject=NotificationsDiagnostic.name,
        about="queue",
        sentence=f"{filled}{why}.",
        because="when it is full, every commit with a NOTIFY fails",
        statement=remedy.statement,
        caution=remedy.caution,
    )


def _judge(one: StuckClient, session: SessionDetails | None, share: float, *, listens: bool) -> Finding:
    name = session.name if session else f"session {one.pid}"
    holds = (
        f", and keeps the dead rows of the last {format_plural(one.age_xids, 'transaction')}" if one.age_xids is not None else ""
    )
    because = "its statement cannot end before its client has read the answer, and keeps its snapshot and its locks until then"
    if listens:
        because = "a listener that does not read keeps the notification queue and dead rows from being cleared, although it counts as idle"
    return Finding(
        severity=Severity.CRITICAL if one.age_xids is not None and share >= _FILLING else Severity.WARNING,
        subject=NotificationsDiagnostic.name,
        about=one.key,
        sentence=f"{name[0].upper()}{name[1:]} has waited for at least {format_age(one.stuck_s)} for its client to read{holds}.",
        because=because,
        statement=statement_to_terminate(one.pid),
        caution="closes the connection of a client that does not read it",
    )
