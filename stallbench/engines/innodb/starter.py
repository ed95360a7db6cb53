"""How MariaDB and MySQL are started: a primary, and replicas that apply its binary log from the beginning."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from stallbench.base.section import SettingValue
from stallbench.engines import driver_of
from stallbench.engines.database import Database
from stallbench.engines.innodb.driver import read_replica_status
from stallbench.engines.innodb.server import InnoDBServer
from stallbench.engines.starter import ServerControl, StartContext, Starter
from stallbench.errors import NotCarriedOutError
from stallbench.setup.components import MissingComponentError
from stallbench.setup.server_programs import SERVER_COMPONENTS, find_server, find_servers, require_server
from stallbench.waiting import wait_until

FOLLOWING_S = 20.0
"""How long a replica may take until it follows."""

_LARGEST_LOG_BYTES = 64 * 2**20
_KEPT_S, _KEPT_FOR_REPLICAS_S = 600, 3600
"""How long a finished file of the binary log is kept. By default it is for a month or for ever, so that the data of a soak grow without limit.
A replica that is cut off for longer than that could not continue."""
WHOLE_DIGESTS: Mapping[str, SettingValue] = {"max_digest_length": 4096, "performance_schema_max_digest_length": 4096}
"""A statement of Django's ORM names each column of the table: at the default of 1024 its end, by which a claim is recognised, is cut off."""


class InnoDBStarter(Starter):
    """Private servers of one of the two."""

    server_type: ClassVar[type[InnoDBServer]]
    log_for_replicas: ClassVar[Mapping[str, SettingValue]]
    """The settings with which it writes a binary log that replicas can apply."""
    logs_by_default: ClassVar[bool] = False
    """Whether it writes a binary log without being told to. It is not told not to, because it is not where it is used."""
    count_statements: ClassVar[Mapping[str, SettingValue]]
    """The settings with which its performance schema counts whole statements."""
    follow: ClassVar[tuple[str, str]]
    """The statements that make a server a replica: who its primary is, with places for its port, the user and the password; and to begin."""

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

    def primary(self) -> InnoDBServer:
        """Start the primary, with a binary log for the replicas if it has any."""
        log = self.log_for_replicas if self.database.replicas else {}
        return self._serve("primary", {**log, **self.database.settings}, self.database.port, self.database.volatile_cache)

    def replica(self, name: str, primary: ServerControl, proxy_port: int) -> InnoDBServer:
        """Start an empty server that applies the primary's whole binary log."""
        semi_synchronous = {"rpl_semi_sync_slave_enabled": True} if self.database.synchronous else {}
        settings = {"read_only": True, **semi_synchronous, **self.database.settings, **self.database.replica_settings}
        server = self._serve(name, {**self.log_for_replicas, **settings}, None)
        change, begin = self.follow
        driver = driver_of(self.database.engine)
        with driver.connect(server.endpoint, "start") as connection, connection.cursor() as cursor:
            cursor.execute(change, (proxy_port, name, self.context.password.get_secret_value()))
            cursor.execute(begin)
            _wait_until_following(cursor, name)
        return server

    def _serve(
        self, name: str, settings: Mapping[str, SettingValue], port: int | None, volatile_cache: bool = False
    ) -> InnoDBServer:
        self._last_id += 1
        server = self.server_type(
            name,
            self._program,
            self.context,
            settings={"server_id": self._last_id, **self.count_statements, **self._limit_log(), **settings},
            port=port,
            volatile_cache=volatile_cache,
        )
        server.start()
        return server

    def _limit_log(self) -> dict[str, SettingValue]:
        """Return the settings that limit the size of a binary log; none if there is no such log. Older versions do not know the first."""
        if not (self.database.replicas or self.logs_by_default):
            return {}
        kept_s = _KEPT_FOR_REPLICAS_S if self.database.replicas else _KEPT_S
        return {"loose_binlog_expire_logs_seconds": kept_s, "max_binlog_size": _LARGEST_LOG_BYTES}


def _wait_until_following(cursor: Any, name: str) -> None:
    def is_following() -> bool:
        status = read_replica_status(cursor)
        return status.get("replica_io_running") == "Yes" and status.get("replica_sql_running") == "Yes"

    if not wait_until(is_following, within_s=FOLLOWING_S, every_s=0.05):
        status = read_replica_status(cursor)
        why = status.get("last_io_error") or status.get("last_sql_error") or "it gives no reason"
        raise NotCarriedOutError(f"{name} did not follow the primary within {FOLLOWING_S:.0f} s: {why}")
