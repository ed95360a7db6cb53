"""Starts Beanstalkd as its package does: in memory, without a binlog."""

from __future__ import annotations

import signal

from stallbench.base.ports import LOOPBACK
from stallbench.engines.database import Database
from stallbench.engines.single_server import SingleServer
from stallbench.engines.starter import StartContext, Starter
from stallbench.setup.server_programs import require_server


class BeanstalkdStarter(Starter):
    """A private Beanstalkd."""

    def __init__(self, context: StartContext, database: Database) -> None:
        """Find the program."""
        super().__init__(context, database)
        self._program = require_server("beanstalkd")

    def primary(self) -> SingleServer:
        """Start it with a large limit for the size of a job, so that it accepts what the other engines accept.

        It has no clean shutdown: any signal ends it at once, and without a binlog there is nothing to save.
        """
        server = SingleServer("primary", "beanstalkd", self._program, self.context, port=self.database.port, password=None)
        server.start(lambda port: ["-l", LOOPBACK, "-p", str(port), "-z", str(2**21)], stop_signal=signal.SIGKILL)
        return server
