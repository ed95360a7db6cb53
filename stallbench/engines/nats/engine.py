"""NATS with JetStream, as the bench knows it."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING

from stallbench.engines.engine import Engine, no_key
from stallbench.engines.error_kinds import ErrorKind

if TYPE_CHECKING:
    from stallbench.engines.driver import Driver
    from stallbench.engines.starter import Starter


class Nats(Engine):
    """Servers from version 2.12 on, which add several messages as one."""

    name = family = "nats"
    title = "NATS JetStream"
    database_keys = frozenset({"volatile_cache"})
    own_settings = MappingProxyType({"port": "database.port", **no_key("authorization", "host", "jetstream.store_dir", "listen")})
    error_codes = MappingProxyType(
        {
            ErrorKind.CONNECTION_LOST: ("ConnectionLostError", "ConnectionClosedError", "TimeoutError"),
            ErrorKind.CANNOT_CONNECT: ("NoServersError", "NoRespondersError", "10008"),  # 10008: JetStream is about to be ready
            ErrorKind.DISK_FULL: ("10047", "10077"),
        }
    )

    def driver(self) -> Driver:
        """Return the driver of nats-py."""
        from stallbench.engines.nats.driver import DRIVER

        return DRIVER

    def starter(self) -> type[Starter]:
        """Return how its program is started."""
        from stallbench.engines.nats.starter import NatsStarter

        return NatsStarter


ENGINE = Nats()
