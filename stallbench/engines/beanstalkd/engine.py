"""Beanstalkd, as the bench knows it."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING

from stallbench.engines.engine import Engine
from stallbench.engines.error_kinds import ErrorKind

if TYPE_CHECKING:
    from stallbench.engines.driver import Driver
    from stallbench.engines.starter import Starter


class Beanstalkd(Engine):
    """A server of queues, without tables and without a password."""

    name = family = "beanstalkd"
    title = "Beanstalkd"
    has_settings = False
    error_codes = MappingProxyType({ErrorKind.CONNECTION_LOST: ("ConnectionLostError",)})

    def driver(self) -> Driver:
        """Return greenstalk's."""
        from stallbench.engines.beanstalkd.driver import DRIVER

        return DRIVER

    def starter(self) -> type[Starter]:
        """Return how its program is started."""
        from stallbench.engines.beanstalkd.starter import BeanstalkdStarter

        return BeanstalkdStarter


ENGINE = Beanstalkd()
