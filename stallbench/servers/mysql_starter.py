"""Starts MariaDB or MySQL: a primary, and replicas that apply its binary log from the beginning."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from stallbench.base.ports import LOOPBACK
from stallbench.base.section import SettingValue
from stallbench.engines import Engine, driver_of
from stallbench.engines.database import Database
from stallbench.engines.mysql import read_replica_status
from stallbench.errors import NotCarriedOutError
from stallbench.servers.mysql import MySQLServer
from stallbench.servers.starter import ServerControl, StartContext, Starter
from stallbench.setup.components import MissingComponentError
from stallbench.setup.server_programs import SERVER_COMPONENTS, find_server, find_servers, require_server
from stallbench.waiting import wait_until

_FOLLOWING_S = 20.0

_LOG_FOR_REPLICAS: Mapping[Engine, Mapping[str, SettingValue]] = {
    "mariadb": {"log_bin": "binlog", "gtid_strict_mode": True},
    "mysql": {"log_bin": "binlog", "gtid_mode": "ON", "enforce_gtid_consistency": "ON"},
}
_LOGS_BY_DEFAULT = ("mysql",)
"""Engines that write a binary log without being told to; none of them is told not to, because none is where they are used."""
_LARGEST_LOG_BYTES = 64 * 2**20
_KEPT_S, _KEPT_FOR_REPLICAS_S = 600, 3600
"""How long a finished file of the binary log is kept. By default it is for a month or for ever, so that the data of a soak grow without limit.
A replica that is cut off for longer than that could not continue."""
_WHOLE_DIGESTS = {"max_digest_length": 4096, "performance_schema_max_digest_length": 4096}
"""A statement of Django's ORM names each column of the table: at the default of 1024 its end, by which a claim is recognised, is cut off."""
_COUNT_STATEMENTS: Mapping[Engine, Mapping[str, SettingValue]] = {
    # All that the collector of statements reads, and nothing else of the performance schema, which MariaDB starts without.
    "mariadb": {"performance_schema": True, "performance_schema_instrument": "statement/%=ON", **_WHOLE_DIGESTS},
    "mysql": _WHOLE_DIGESTS,  # its performance schema is on by default
}
_SEMI_SYNCHRONOUS = {"rpl_semi_sync_master_wait_point": "AFTER_SYNC", "rpl_semi_sync_master_enabled": 1}
"""MariaDB's settings. Its default wait point is after the commit, where others see a change that a replica may never receive. After 10 s
without an answer the primary continues without the replica, which is MariaDB's default."""
_FOLLOW = {
    "mariadb": (
        f"CHANGE MASTER TO MASTER_HOST = '{LOOPBACK}', MASTER_PORT = %s, MASTER_USER = %s, MASTER_PASSWORD = %s, "
        "MASTER_USE_GTID = slave_pos, MASTER_CONNECT_RETRY = 1",
        "START SLAVE",
    ),
    "mysql": (
        f"CHANGE REPLICATION SOURCE TO SOURCE_HOST = '{LOOPBACK}', SOURCE_PORT = %s, SOURCE_USER = %s, SOURCE_PASSWORD = %s, "
        "SOURCE_AUTO_POSITION = 1, GET_SOURCE_PUBLIC_KEY = 1, SOURCE_CONNECT_RETRY = 1",
        "START REPLICA",
    ),
}


class MySQLStarter(Starter):
    """Private MariaDB or MySQL servers."""

    engines = frozenset({"mariadb", "mysql"})

    def __init__(self, context: StartContext, database: Database) -> None:
        """Find the program."""
        super().__init__(context, database)
        if obstacle := self.find_obstacle(database):
            raise MissingComponentError(obstacle)
        self._program = find_server(database.engine, database.version) or require_server(database.engine)
        self._last_id = 0

    @classmethod
    def find_obstacle(cls, database: Database) -> str | None:
        """Find out whether the programs that are there have other versions; one that is not there yet is installed first, to see its version."""
        if database.version is None:
            return None
        require_server(database.engine)
        if find_server(database.engine, database.version):
            return None
        component = SERVER_COMPONENTS[database.engine]
        found = ", ".join(one.version for one in find_servers(database.engine))
        return (
            f"{component.title} {database.version} is not available here; available: {found}; "
            f"add the folder of another version to {component.override}; docs/versions.md says how to use others"
        )

    def primary(self) -> MySQLServer:
        """Start the primary. MariaDB writes a binary log only if it has replicas."""
        log = _LOG_FOR_REPLICAS[self.database.engine] if self.database.replicas else {}
        return self._serve("primary", {**log, **self.database.settings}, self.database.port, self.database.volatile_cache)

    def replica(self, name: str, primary: ServerControl, proxy_port: int) -> MySQLServer:
        """Start an empty server that applies the primary's whole binary log."""
        semi_synchronous = {"rpl_semi_sync_slave_enabled": True} if self.database.synchronous else {}
        settings = {"read_only": True, **semi_synchronous, **self.database.settings, **self.database.replica_settings}
        server = self._serve(name, {**_LOG_FOR_REPLICAS[self.database.engine], **settings}, None)
        change, begin = _FOLLOW[self.database.engine]
        driver = driver_of(self.database.engine)
        with driver.connect(server.endpoint, "start") as connection, connection.cursor() as cursor:
            cursor.execute(change, (proxy_port, name, self.context.password.get_secret_value()))
            cursor.execute(begin)
            _wait_until_following(cursor, name)
        return server

    def wait_for_replicas(self, primary: ServerControl, names: Sequence[str]) -> None:
        """Enable semi-synchronous replication: a commit returns after a replica has it in its relay log."""
        with driver_of("mariadb").connect(primary.endpoint, "start") as connection, connection.cursor() as cursor:
            for name, value in _SEMI_SYNCHRONOUS.items():
                cursor.execute(f"SET GLOBAL {name} = %s", (value,))

            def all_are_connected() -> bool:
                cursor.execute("SHOW GLOBAL STATUS LIKE 'rpl_semi_sync_master_clients'")
                return bool(cursor.fetchone()[1] == str(len(names)))

            if not wait_until(all_are_connected, within_s=_FOLLOWING_S, every_s=0.05):
                raise NotCarriedOutError(f"the primary does not wait for its replicas after {_FOLLOWING_S:.0f} s")
        primary.settings_in_force |= {name: str(value) for name, value in _SEMI_SYNCHRONOUS.items()}

    def _serve(
        self, name: str, settings: Mapping[str, SettingValue], port: int | None, volatile_cache: bool = False
    ) -> MySQLServer:
        self._last_id += 1
        server = MySQLServer(
            name,
            self.database.engine,
            self._program,
            self.context,
            settings={"server_id": self._last_id, **_COUNT_STATEMENTS[self.database.engine], **self._limit_log(), **settings},
            port=port,
            volatile_cache=volatile_cache,
        )
        server.start()
        return server

    def _limit_log(self) -> dict[str, SettingValue]:
        """Return the settings that limit the size of a binary log; none if there is no such log. Older versions do not know the first."""
        if not (self.database.replicas or self.database.engine in _LOGS_BY_DEFAULT):
            return {}
        kept_s = _KEPT_FOR_REPLICAS_S if self.database.replicas else _KEPT_S
        return {"loose_binlog_expire_logs_seconds": kept_s, "max_binlog_size": _LARGEST_LOG_BYTES}


def _wait_until_following(cursor: Any, name: str) -> None:
    def is_following() -> bool:
        status = read_replica_status(cursor)
        return status.get("replica_io_running") == "Yes" and status.get("replica_sql_running") == "Yes"

    if not wait_until(is_following, within_s=_FOLLOWING_S, every_s=0.05):
        status = read_replica_status(cursor)
        why = status.get("last_io_error") or status.get("last_sql_error") or "it gives no reason"
        raise NotCarriedOutError(f"{name} did not follow the primary within {_FOLLOWING_S:.0f} s: {why}")
