"""How full is the notification queue (LISTEN, NOTIFY), and which client does not read?"""

from __future__ import annotations

from stallbench.collectors.notifications import StuckClient, StuckClients, read_notification_queue
from stallbench.observe.formatting import format_age, format_bytes, format_plural
from stallbench.observe.postgres.sessions import SessionDetails, read_sessions, statement_to_terminate
from stallbench.observe.subject import Finding, Look, Section, Severity, Subject

_HALF = 0.5
_FILLING = 0.01


class NotificationsSubject(Subject):
    """Reads the queue's usage and the sessions that wait for their client to read."""

    name = "notifications"
    what = "the notification queue and clients that do not read"
    position = 50

    def __init__(self) -> None:
        """Know no stuck client."""
        self._stuck = StuckClients()

    def look(self, look: Look) -> Section:
        """Return the usage in one sentence, and a finding for each session whose client has not read since the last look."""
        queue = read_notification_queue(look.server)
        stuck = self._stuck.read(look.server)
        sessions = read_sessions(look.server, [one.pid for one in stuck])
        share = f"{100 * queue.share:.2g} % full" if queue.share else "empty"
        used = f" ({format_bytes(queue.share * queue.limit_bytes)} of {format_bytes(queue.limit_bytes)})" if queue.share else ""
        waiting = f" {format_plural(queue.lock_waits, 'commit')} with a NOTIFY wait for another one." if queue.lock_waits else ""
        seen = "" if look.known.sees_all else ", of those that this user may see"
        findings = [_judge(one, sessions.get(one.pid), queue.share) for one in stuck]
        if queue.share >= _HALF or (queue.share >= _FILLING and not stuck):
            findings.append(
                Finding(
                    severity=Severity.CRITICAL if queue.share >= _HALF else Severity.WARNING,
                    subject=self.name,
                    about="queue",
                    sentence=f"The notification queue is {share}{used}: a session that listens does not read, or has been in a "
                    "transaction for long.",
                    because="when it is full, every commit with a NOTIFY fails",
                )
            )
        return Section(
            title="Notifications",
            sentences=(
                f"The notification queue is {share}{used}.{waiting} {format_plural(len(stuck), 'client')} not reading{seen}.",
            ),
            says_nothing=not queue.share and not stuck and not queue.lock_waits,
            findings=tuple(findings),
        )


def _judge(one: StuckClient, session: SessionDetails | None, share: float) -> Finding:
    name = session.name if session else f"session {one.pid}"
    holds = f", and holds the horizon ({format_plural(one.age_xids, 'transaction')} ago)" if one.age_xids is not None else ""
    return Finding(
        severity=Severity.CRITICAL if one.age_xids is not None and share >= _FILLING else Severity.WARNING,
        subject=NotificationsSubject.name,
        about=one.key,
        sentence=f"{name[0].upper()}{name[1:]} has waited for at least {format_age(one.stuck_s)} for its client to read{holds}.",
        because="a listener that does not read keeps the notification queue and dead rows from being cleared, although it counts as idle",
        statement=statement_to_terminate(one.pid),
        caution="closes the connection of a client that does not read it",
    )
