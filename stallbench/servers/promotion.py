"""Makes a replica the primary, as failover tools do: it applies what it has received, and then takes writes."""

from __future__ import annotations

import time
from typing import Any

from stallbench.engines import driver_of
from stallbench.engines.mysql import read_replica_status
from stallbench.engines.postgres import connect
from stallbench.errors import NotCarriedOutError
from stallbench.records.endpoint import Endpoint

IDS_MOVED_ON_BY = 1_000_000
"""A dead primary may have given away ids that its replica has never heard of. The new one leaves so many out, so that no two jobs have
the same id: runbooks say so to keep ids that customers have seen from naming something else, and the bench follows jobs by their ids."""

_APPLIED_S = 30.0
_LOOK_EVERY_S = 0.02


def find_bytes_behind(primary: Endpoint, replica: Endpoint, name: str) -> int | None:
    """Return how much of what the primary has written the replica called ``name`` has not received; none if neither knows."""
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


def promote(replica: Endpoint) -> dict[str, Any]:
    """Promote it, and return what shows that it takes writes; raises `NotCarriedOutError` or an error of the driver if it does not."""
    return _promote_postgres(replica) if replica.engine == "postgres" else _promote_mysql(replica)


def _promote_postgres(replica: Endpoint) -> dict[str, Any]:
    with connect(replica, "promotion") as connection:
        promoted = connection.execute("SELECT pg_promote(true, %s)", (int(_APPLIED_S),)).fetchone()
        state = connection.execute("SELECT pg_is_in_recovery(), timeline_id FROM pg_control_checkpoint()").fetchone()
        if promoted != (True,) or state is None or state[0]:
            raise NotCarriedOutError(f"the replica did not become a primary within {_APPLIED_S:.0f} s")
        connection.execute(
            "SELECT setval(format('%%I.%%I', schemaname, sequencename)::regclass, coalesce(last_value, 0) + %s) FROM pg_sequences",
            (IDS_MOVED_ON_BY,),
        )
    return {"in_recovery": False, "ids_moved_on_by": IDS_MOVED_ON_BY}


def _promote_mysql(replica: Endpoint) -> dict[str, Any]:
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
            cursor.execute(f"ALTER TABLE `{table}` AUTO_INCREMENT = {int(next_id) + IDS_MOVED_ON_BY}")
    return {"read_only": False, "ids_moved_on_by": IDS_MOVED_ON_BY}


def _wait_until_applied(cursor: Any) -> None:
    """Wait until everything in the relay log has been applied."""
    until_s = time.monotonic() + _APPLIED_S
    while time.monotonic() < until_s:
        status = read_replica_status(cursor)
        if error := status.get("last_sql_error"):
            raise NotCarriedOutError(f"the replica cannot apply what it has received: {error}")
        received = status.get("source_log_file"), status.get("read_source_log_pos")
        if received == (status.get("relay_source_log_file"), status.get("exec_source_log_pos")):
            return
        time.sleep(_LOOK_EVERY_S)
    raise NotCarriedOutError(f"the replica did not apply what it had received within {_APPLIED_S:.0f} s")
