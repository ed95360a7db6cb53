"""Starts MariaDB, also with replicas that the primary waits for."""

from __future__ import annotations

from collections.abc import Sequence
from types import MappingProxyType

from stallbench.base.ports import LOOPBACK
from stallbench.engines import driver_of
from stallbench.engines.innodb.starter import FOLLOWING_S, WHOLE_DIGESTS, InnoDBStarter
from stallbench.engines.mariadb.server import MariaDBServer
from stallbench.engines.starter import ServerControl
from stallbench.errors import NotCarriedOutError
from stallbench.waiting import wait_until

_SEMI_SYNCHRONOUS = {"rpl_semi_sync_master_wait_point": "AFTER_SYNC", "rpl_semi_sync_master_enabled": 1}
"""The default wait point is after the commit, where others see a change that a replica may never receive. After 10 s without an answer the primary
continues without the replica, which is MariaDB's default."""


class MariaDBStarter(InnoDBStarter):
    """Private MariaDB servers."""

    server_type = MariaDBServer
    log_for_replicas = MappingProxyType({"log_bin": "binlog", "gtid_strict_mode": True})
    # All that the collector of statements reads, and nothing else of the performance schema, which MariaDB starts without.
    count_statements = MappingProxyType(
        {"performance_schema": True, "performance_schema_instrument": "statement/%=ON", **WHOLE_DIGESTS}
    )
    follow = (
        f"CHANGE MASTER TO MASTER_HOST = '{LOOPBACK}', MASTER_PORT = %s, MASTER_USER = %s, MASTER_PASSWORD = %s, "
        "MASTER_USE_GTID = slave_pos, MASTER_CONNECT_RETRY = 1",
        "START SLAVE",
    )

    def wait_for_replicas(self, primary: ServerControl, names: Sequence[str]) -> None:
        """Enable semi-synchronous replication: a commit returns after a replica has it in its relay log."""
        with driver_of(primary.endpoint.engine).connect(primary.endpoint, "start") as connection, connection.cursor() as cursor:
            for name, value in _SEMI_SYNCHRONOUS.items():
                cursor.execute(f"SET GLOBAL {name} = %s", (value,))

            def all_are_connected() -> bool:
                cursor.execute("SHOW GLOBAL STATUS LIKE 'rpl_semi_sync_master_clients'")
                return bool(cursor.fetchone()[1] == str(len(names)))

            if not wait_until(all_are_connected, within_s=FOLLOWING_S, every_s=0.05):
                raise NotCarriedOutError(f"the primary does not wait for its replicas after {FOLLOWING_S:.0f} s")
        primary.settings_in_force |= {name: str(value) for name, value in _SEMI_SYNCHRONOUS.items()}
