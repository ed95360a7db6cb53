"""The failover to a replica of PostgreSQL."""

from __future__ import annotations

from stallbench.engines.postgres.driver import connect
from stallbench.engines.replication import APPLIED_S, SKIPPED_IDS, Replication
from stallbench.errors import NotCarriedOutError
from stallbench.records.endpoint import Endpoint
from stallbench.records.injections import Evidence


class PostgresReplication(Replication):
    """Streaming replication."""

    def find_bytes_behind(self, primary: Endpoint, replica: Endpoint, name: str) -> int | None:
        """Ask the primary, which knows what the replica has flushed."""
        with connect(primary, "promotion") as connection:
            row = connection.execute(
                "SELECT pg_wal_lsn_diff(pg_current_wal_lsn(), flush_lsn)::bigint FROM pg_stat_replication WHERE application_name = %s",
                (name,),
            ).fetchone()
        return row[0] if row else None

    def promote(self, replica: Endpoint) -> Evidence:
        """Promote it, and let its sequences skip ids."""
        with connect(replica, "promotion") as connection:
            promoted = connection.execute("SELECT pg_promote(true, %s)", (int(APPLIED_S),)).fetchone()
            state = connection.execute("SELECT pg_is_in_recovery(), timeline_id FROM pg_control_checkpoint()").fetchone()
            if promoted != (True,) or state is None or state[0]:
                raise NotCarriedOutError(f"the replica did not become a primary within {APPLIED_S:.0f} s")
            connection.execute(
                "SELECT setval(format('%%I.%%I', schemaname, sequencename)::regclass, coalesce(last_value, 0) + %s) FROM pg_sequences",
                (SKIPPED_IDS,),
            )
        return {"in_recovery": False, "skipped_ids": SKIPPED_IDS}
