"""How far behind are the replicas, and which replication slots keep WAL and the horizon?"""

from __future__ import annotations

from stallbench.base.number_text import format_bytes, format_plural
from stallbench.observe.diagnostic import Diagnostic, Finding, Reading, Section, Severity
from stallbench.observe.formatting import format_age
from stallbench.observe.postgres.sessions import AWAITS_STANDBY, commit_without_standby
from stallbench.observe.postgres.slots import judge_slot, read_slots
from stallbench.observe.thresholds import BRIEF_S, LONG_WAIT_S
from stallbench.sql_names import quote_text

_FAR_BEHIND_BYTES = 1024**3
# A committed transaction waits here until a synchronous standby has it; its locks stay until then.
_AWAITS_STANDBY = """
SELECT pg_catalog.count(*), pg_catalog.max(extract(epoch FROM pg_catalog.clock_timestamp() - query_start))::double precision,
  pg_catalog.current_setting('synchronous_standby_names'),
  ARRAY(SELECT application_name FROM pg_catalog.pg_stat_replication WHERE sync_state IN ('sync', 'quorum') ORDER BY 1)
FROM pg_catalog.pg_stat_activity WHERE wait_event = 'SyncRep'
"""
_POSITION = (
    "CASE WHEN pg_catalog.pg_is_in_recovery() THEN pg_catalog.pg_last_wal_replay_lsn() ELSE pg_catalog.pg_current_wal_lsn() END"
)
_REPLICAS = f"""
SELECT application_name,
  CASE WHEN state IS NULL THEN 'hidden' ELSE coalesce(pg_catalog.host(client_addr), 'local') END, coalesce(state, 'hidden'), sync_state,
  pg_catalog.pg_wal_lsn_diff({_POSITION}, replay_lsn)::bigint, extract(epoch FROM replay_lag)::double precision
FROM pg_catalog.pg_stat_replication
WHERE replay_lsn IS NOT NULL OR state IS NULL
"""
# Who is no member of pg_read_all_stats sees that there is a walsender or a WAL receiver, and nothing of it.
_ON_REPLICA = """
SELECT extract(epoch FROM pg_catalog.clock_timestamp() - pg_catalog.pg_last_xact_replay_timestamp())::double precision,
  (SELECT coalesce(status, 'running, its status hidden') FROM pg_catalog.pg_stat_wal_receiver),
  pg_catalog.current_setting('hot_standby_feedback'), pg_catalog.pg_is_wal_replay_paused(),
  (SELECT conflicts FROM pg_catalog.pg_stat_database WHERE datname = pg_catalog.current_database())
"""


class ReplicationDiagnostic(Diagnostic):
    """Reads the server's replicas and slots; of a replica also its own delay."""

    name = "replication"
    what = "replicas and replication slots"
    position = 70

    def read(self, reading: Reading) -> Section:
        """Return replicas and slots, with a finding for each slot without a consumer and each replica that is far behind."""
        replicas = reading.server.execute(_REPLICAS).fetchall()
        slots = read_slots(reading.server)
        rows = [
            (
                f"replica {name}",
                client,
                state,
                format_bytes(lag_bytes),
                format_age(lag_s) if lag_s is not None else "",
                sync or "",
            )
            for name, client, state, sync, lag_bytes, lag_s in replicas
        ]
        findings = []
        for name, client, state, _, lag_bytes, lag_s in replicas:
            if lag_bytes is not None and lag_bytes >= _FAR_BEHIND_BYTES:
                findings.append(
                    Finding(
                        severity=Severity.WARNING,
                        subject=self.name,
                        about=name,
                        sentence=f"Replica {name} ({client}, {state}) is {format_bytes(lag_bytes)} of WAL behind"
                        + (f", {format_age(lag_s)}." if lag_s is not None else "."),
                    )
                )
        if not reading.state.is_replica:
            findings += _judge_commits(reading)
        for slot in slots:
            about = f"{slot.kind} slot {slot.name}" + (f" ({slot.database})" if slot.database else "")
            rows.append((about, "", slot.state, format_bytes(slot.kept_bytes or 0), "", slot.keeps))
            if finding := judge_slot(slot, self.name):
                findings.append(finding)
        sentences = () if rows else ("No replicas, and no replication slots.",)
        if reading.state.is_replica:
            sentence, paused = self._describe_replica(reading)
            sentences = (*sentences, sentence)
            findings += paused
        return Section(
            title="Replication",
            columns=("name", "client", "state", "WAL behind or kept", "delay", "") if rows else (),
            rows=tuple(rows),
            sentences=sentences,
            says_nothing=not rows and not reading.state.is_replica,
            findings=tuple(findings),
        )

    def _describe_replica(self, reading: Reading) -> tuple[str, list[Finding]]:
        """Return the state of the replay, and a finding if it is paused: all that is read here is then old."""
        delay_s, status, feedback, paused, conflicts = reading.server.execute(_ON_REPLICA).fetchone() or (
            None,
            None,
            "?",
            False,
            0,
        )
        state = "replay is paused" if paused else f"WAL receiver {status or 'not running'}"
        findings = []
        if paused:
            findings.append(
                Finding(
                    severity=Severity.WARNING,
                    subject=self.name,
                    about="replay",
                    sentence=f"This replica's replay is paused; the last transaction that it shows is {format_age(delay_s)} old.",
                    because="jobs that seem to wait here may be done on the primary, which still keeps what this replica's feedback asks for",
                    statement="SELECT pg_wal_replay_resume();",
                    caution="lets it continue: ask first whether somebody has paused it on purpose",
                )
            )
        elif reading.state.shows_past:
            findings.append(
                Finding(
                    severity=Severity.WARNING,
                    subject=self.name,
                    about="replay",
                    sentence=f"This replica's replay is behind: the last transaction that it shows is {format_age(delay_s)} old.",
                    because="jobs that seem to wait here may be done on the primary",
                )
            )
        sentence = (
            f"This server is a replica: {state}, last replayed transaction {format_age(delay_s)} old, hot_standby_feedback {feedback}, "
            f"{format_plural(conflicts or 0, 'query', 'queries')} cancelled by recovery."
        )
        return sentence, findings


def _judge_commits(reading: Reading) -> list[Finding]:
    """Return a finding if commits wait for a synchronous standby."""
    ((count, longest_s, wanted, standbys),) = reading.server.execute(_AWAITS_STANDBY).fetchall()
    if not count or (longest_s or 0.0) < BRIEF_S:
        return []
    connected = f"connected: {', '.join(standbys)}" if standbys else "none is connected"
    remedy = commit_without_standby()
    return [
        Finding(
            severity=Severity.CRITICAL if longest_s >= LONG_WAIT_S else Severity.WARNING,
            subject=ReplicationDiagnostic.name,
            about="synchronous standbys",
            sentence=f"{format_plural(count, 'session is', 'sessions are')} {AWAITS_STANDBY}, the longest for {format_age(longest_s)} "
            f"(synchronous_standby_names = {quote_text(wanted).strip()}; {connected}).",
            because="their transactions are committed on this server, and keep their locks until a standby has confirmed them",
            statement=remedy.statement,
            caution=remedy.caution,
        )
    ]
