"""Aerospike, as the bench knows it."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING

from stallbench.engines.engine import Engine
from stallbench.engines.error_kinds import ErrorKind

if TYPE_CHECKING:
    from stallbench.engines.driver import Driver
    from stallbench.engines.starter import Starter


class Aerospike(Engine):
    """Servers of the user's, because no package has one."""

    name = family = "aerospike"
    title = "Aerospike"
    has_settings = False
    belongs_to_user = True
    error_codes = MappingProxyType({ErrorKind.CONNECTION_LOST: ("9", "11", "-10")})

    def driver(self) -> Driver:
        """Return the driver of its client."""
        from stallbench.engines.aerospike.driver import DRIVER

        return DRIVER

    def starter(self) -> type[Starter]:
        """Return how the user's server is joined."""
        from stallbench.engines.aerospike.starter import AerospikeStarter

        return AerospikeStarter


ENGINE = Aerospike()
