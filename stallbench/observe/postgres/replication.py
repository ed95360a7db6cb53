"""How far behind are the replicas, and which replication slots keep WAL and the horizon?"""

from __future__ import annotations

from stallbench.observe.formatting import format_age, format_bytes, format_count, format_plural
from stallbench.observe.postgres.sessions import describe_loss_of_slot, statement_to_drop
from stallbench.observe.subject import Finding, Look, Section, Severity, Subject

_FAR_BEHIND_BYTES = 1024**3
_KEPT_BYTES = 10 * 1024**3
_POSITION = "CASE WHEN pg_is_in_recovery() THEN pg_last_wal_replay_lsn() ELSE pg_current_wal_lsn() END"
_REPLICAS = f"""
SELECT application_name, coalesce(host(client_addr), 'local'), coalesce(state, 'hidden'), sync_state,
  pg_wal_lsn_diff({_POSITION}, replay_lsn)::bigint, extract(epoch FROM replay_lag)::float8
FROM pg_stat_replication
WHERE backend_xmin IS NOT NULL OR replay_lsn IS NOT NULL OR state IS NULL
"""
_SLOTS = f"""
SELECT slot_name, slot_type, coalesce(database, ''), active, wal_status,
  pg_wal_lsn_diff({_POSITION}, restart_lsn)::bigint, age(xmin), age(catalog_xmin)
FROM pg_replication_slots
ORDER BY restart_lsn
"""
_ON_REPLICA = """
SELECT extract(epoch FROM clock_timestamp() - pg_last_xact_replay_timestamp())::float8,
  (SELECT status FROM pg_stat_wal_receiver), current_setting('hot_standby_feedback'), pg_is_wal_replay_paused(),
  (SELECT conflicts FROM pg_stat_database WHERE datname = current_database())
"""


class ReplicationSubject(Subject):
    """Reads the server's replicas and slots; of a replica also its own delay."""

    name = "replication"
    what = "replicas and replication slots"
    position = 70

    def look(self, look: Look) -> Section:
        """Return replicas and slots, with a finding for each slot without a consumer and each replica that is far behind."""
        replicas = look.server.execute(_REPLICAS).fetchall()
        slots = look.server.execute(_SLOTS).fetchall()
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
        for name, kind, database, active, wal_status, kept_bytes, xmin_age, catalog_age in slots:
            state = "active" if active else "inactive"
            state += "" if wal_status in (None, "reserved", "extended") else f", WAL {wal_status}"
            keeps = "all tables" if xmin_age is not None else "system catalogs" if catalog_age is not None else "WAL only"
            about = f"{kind} slot {name}" + (f" ({database})" if database else "")
            rows.append((about, "", state, format_bytes(kept_bytes), "", f"keeps {keeps}"))
            if not active:
                findings.append(_judge_inactive(name, kind, kept_bytes, xmin_age, catalog_age))
        sentences = () if rows else ("No replicas, and no replication slots.",)
        if look.known.is_replica:
            sentences = (*sentences, self._describe_replica(look))
        return Section(
            title="Replication",
            columns=("name", "client", "state", "WAL behind or kept", "delay", "") if rows else (),
            rows=tuple(rows),
            sentences=sentences,
            findings=tuple(findings),
        )

    def _describe_replica(self, look: Look) -> str:
        delay_s, status, feedback, paused, conflicts = look.server.execute(_ON_REPLICA).fetchone() or (None, None, "?", False, 0)
        state = "replay is paused" if paused else f"WAL receiver {status or 'not running'}"
        return (
            f"This server is a replica: {state}, last replayed transaction {format_age(delay_s)} old, hot_standby_feedback {feedback}, "
            f"{format_plural(conflicts or 0, 'query', 'queries')} cancelled by recovery."
        )


def _judge_inactive(name: str, kind: str, kept_bytes: int | None, xmin_age: int | None, catalog_age: int | None) -> Finding:
    kept = f"keeps {format_bytes(kept_bytes)} of WAL" if kept_bytes is not None else "keeps no WAL yet"
    if xmin_age is not None:
        kept += f" and holds the horizon ({format_count(xmin_age)} transactions ago)"
    elif catalog_age is not None:
        kept += f" and the dead rows of the system catalogs ({format_count(catalog_age)} transactions)"
    is_urgent = xmin_age is not None or (kept_bytes or 0) >= _KEPT_BYTES
    return Finding(
        severity=Severity.CRITICAL if is_urgent else Severity.WARNING,
        subject=ReplicationSubject.name,
        about=name,
        sentence=f"The {kind} replication slot {name} is inactive and {kept}.",
        because="the server keeps WAL for it until the disk is full",
        statement=statement_to_drop(name),
        caution=describe_loss_of_slot(is_logical=kind == "logical"),
    )
