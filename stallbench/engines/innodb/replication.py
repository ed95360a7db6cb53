"""The failover to a replica of MariaDB or MySQL."""

from __future__ import annotations

from typing import Any

from stallbench.engines.innodb.driver import DRIVER, read_replica_status
from stallbench.engines.replication import APPLIED_S, SKIPPED_IDS, Replication
from stallbench.errors import NotCarriedOutError
from stallbench.records.endpoint import Endpoint
from stallbench.records.injections import Evidence
from stallbench.waiting import wait_until

_POLL_EVERY_S = 0.02


class InnoDBReplication(Replication):
    """Replication by the binary log."""

    def __init__(self, word: str) -> None:
        """``word``: what its statements call a replica."""
        self._word = word

    def find_bytes_behind(self, primary: Endpoint, replica: Endpoint, name: str) -> int | None:
        """Compare the primary's position in its log with the replica's, if both are in the same file."""
        with DRIVER.connect(primary, "promotion") as connection, connection.cursor() as cursor:
            cursor.execute("SHOW MASTER STATUS")
            written = cursor.fetchone()
        with DRIVER.connect(replica, "promotion") as connection, connection.cursor() as cursor:
            status = read_replica_status(cursor)
        if not written or written[0] != status.get("source_log_file"):
            return None
        return max(0, int(written[1]) - int(status["read_source_log_pos"]))

    def promote(self, replica: Endpoint) -> Evidence:
        """Let it apply its relay log and forget its primary, and let its tables skip ids."""
        with DRIVER.connect(replica, "promotion") as connection, connection.cursor() as cursor:
            cursor.execute(f"STOP {self._word} IO_THREAD")
            _wait_until_applied(cursor)
            cursor.execute(f"STOP {self._word}")
            cursor.execute(f"RESET {self._word} ALL")
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

    if not wait_until(is_applied, within_s=APPLIED_S, every_s=_POLL_EVERY_S):
        raise NotCarriedOutError(f"the replica did not apply what it had received within {APPLIED_S:.0f} s")
