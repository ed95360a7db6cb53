"""Promotes a replica, as failover tools do: it applies what it has received, and then accepts writes."""

from __future__ import annotations

from typing import Any

from stallbench.engines import driver_of
from stallbench.engines.mysql import read_replica_status
from stallbench.engines.postgres import connect
from stallbench.errors import NotCarriedOutError
from stallbench.records.endpoint import Endpoint
from stallbench.records.injections import Evidence
from stallbench.waiting import wait_until

SKIPPED_IDS = 1_000_000
"""How many ids the new primary skips. The dead primary may have issued ids that the replica never received, and no two jobs may have the
same id. Runbooks recommend this so that ids that customers have seen keep their meaning; the bench identifies jobs by their ids."""

_APPLIED_S = 30.0
_POLL_EVERY_S = 0.02


def find_bytes_behind(primary: Endpoint, replica: Endpoint, name: str) -> int | None:
    """Return how many bytes of the primary's log the replica ``name`` has not received; none if neither server reports it."""
    if primary.engine == "postgres":
        with connect(primary, "promotion") as connection:
            row = connection.execute(
                "SELECT pg_wal_lsn_diff(pg_current_wal_lsn(), flush_lsn)::bigint FROM pg_stat_replication WHERE application_name = %s",
                (name,),
            ).fetchone()
        return row[0] if row else None
    driver = driver_of(primary.engine)
    with driver.connect(primary, "promotion") as connection, connection.cursor() as cursor:
        cursor.execute("SHOW MASTER STATUS")
        written = cursor.fetchone()
    with driver.connect(replica, "promotion") as connection, connection.cursor() as cursor:
        status = read_replica_status(cursor)
    if not written or written[0] != status.get("source_log_file"):
        return None
    return max(0, int(written[1]) - int(status["read_source_log_pos"]))


def promote(replica: Endpoint) -> Evidence:
    """Promote it and return the evidence that it accepts writes; raises `NotCarriedOutError` or one of the driver's errors."""
    return _promote_postgres(replica) if replica.engine == "postgres" else _promote_mysql(replica)


def _promote_postgres(replica: Endpoint) -> Evidence:
    with connect(replica, "promotion") as connection:
        promoted = connection.execute("SELECT pg_promote(true, %s)", (int(_APPLIED_S),)).fetchone()
        state = connection.execute("SELECT pg_is_in_recovery(), timeline_id FROM pg_control_checkpoint()").fetchone()
        if promoted != (True,) or state is None or state[0]:
            raise NotCarriedOutError(f"the replica did not become a primary within {_APPLIED_S:.0f} s")
        connection.execute(
            "SELECT setval(format('%%I.%%I', schemaname, sequencename)::regclass, coalesce(last_value, 0) + %s) FROM pg_sequences",
            (SKIPPED_IDS,),
        )
    return {"in_recovery": False, "skipped_ids": SKIPPED_IDS}


def _promote_mysql(replica: Endpoint) -> Evidence:
    word = "SLAVE" if replica.engine == "mariadb" else "REPLICA"
    with driver_of(replica.engine).connect(replica, "promotion") as connection, connection.cursor() as cursor:
        cursor.execute(f"STOP {word} IO_THREAD")
        _wait_until_applied(cursor)
        cursor.execute(f"STOP {word}")
        cursor.execute(f"RESET {word} ALL")
        cursor.execute("SET GLOBAL read_only = 0")
        if read_replica_status(cursor):
            raise NotCarriedOutError("the replica still follows the dead primary")
        cursor.execute(
            "SELECT table_name, auto_increment FROM information_schema.tables "
            "WHERE table_schema = database() AND auto_increment IS NOT NULL"
        )
        for table, next_id in cursor.fetchall():
            cursor.execute(f"ALTER TABLE `{table}` AUTO_INCREMENT = {int(next_id) + SKIPPED_IDS}")
    return {"read_only": False, "skipped_ids": SKIPPED_IDS}


def _wait_until_applied(cursor: Any) -> None:
    """Wait until everything in the relay log has been applied."""

    def is_applied() -> bool:
        status = read_replica_status(cursor)
        if error := status.get("last_sql_error"):
            raise NotCarriedOutError(f"the replica cannot apply what it has received: {error}")
        received = status.get("source_log_file"), status.get("read_source_log_pos")
        return received == (status.get("relay_source_log_file"), status.get("exec_source_log_pos"))

    if not wait_until(is_applied, within_s=_APPLIED_S, every_s=_POLL_EVERY_S):
        raise NotCarriedOutError(f"the replica did not apply what it had received within {_APPLIED_S:.0f} s")
