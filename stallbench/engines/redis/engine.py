"""Redis, as the bench knows it."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING

from stallbench.engines.engine import Engine, no_key
from stallbench.engines.error_kinds import ErrorKind

if TYPE_CHECKING:
    from stallbench.engines.driver import Driver
    from stallbench.engines.starter import Starter
    from stallbench.records.endpoint import Endpoint


class Redis(Engine):
    """Servers from version 6 on."""

    name = family = "redis"
    title = "Redis"
    replaces_databases = True
    database_keys = frozenset({"volatile_cache"})
    own_settings = MappingProxyType(
        {
            "port": "database.port",
            **no_key("bind", "daemonize", "dir", "logfile", "requirepass", "unixsocket"),
        }
    )
    error_codes = MappingProxyType(
        {
            ErrorKind.CONNECTION_LOST: ("ConnectionError", "TimeoutError"),
            ErrorKind.CANNOT_CONNECT: ("BusyLoadingError", "MaxConnectionsError"),
            ErrorKind.SESSION_STATE_LOST: ("NoScriptError",),
            ErrorKind.READ_ONLY: ("ReadOnlyError",),
        }
    )

    def driver(self) -> Driver:
        """Return redis-py's."""
        from stallbench.engines.redis.driver import DRIVER

        return DRIVER

    def starter(self) -> type[Starter]:
        """Return how its program is started."""
        from stallbench.engines.redis.starter import RedisStarter

        return RedisStarter

    def replace_database(self, former: Endpoint, name: str) -> Endpoint:
        """Empty it: it has no name."""
        driver = self.driver()
        connection = driver.connect(former, "conformance")
        try:
            connection.flushdb()
        finally:
            driver.close(connection)
        return former


ENGINE = Redis()
