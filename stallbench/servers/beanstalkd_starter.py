"""Brings up Beanstalkd, as its package starts it: in memory, without a binlog."""

from __future__ import annotations

import signal

from stallbench.scenario.database import Database
from stallbench.servers.ports import LOOPBACK
from stallbench.servers.single_server import SingleServer
from stallbench.servers.starter import StartContext, Starter
from stallbench.setup.components import require_server


class BeanstalkdStarter(Starter):
    """A private Beanstalkd."""

    engines = frozenset({"beanstalkd"})

    def __init__(self, context: StartContext, database: Database) -> None:
        """Look for the program."""
        super().__init__(context, database)
        self._part = require_server("beanstalkd", "Beanstalkd")

    def primary(self) -> SingleServer:
        """Start it. The limit of a job's size is large, so that it takes what the other engines take.

        It has no orderly end: any signal ends it at once, and without a binlog there is nothing to be saved.
        """
        server = SingleServer("primary", "beanstalkd", self._part, self.context, port=self.database.port, password=None)
        server.start(lambda port: ["-l", LOOPBACK, "-p", str(port), "-z", str(2**21)], stop_signal=signal.SIGKILL)
        return server
