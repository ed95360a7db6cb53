"""A server is killed, or stopped cleanly, and started again on the same port with the same data."""

from __future__ import annotations

import math
import time
from abc import abstractmethod
from typing import ClassVar

from pydantic import Field

from stallbench.base.duration import Duration
from stallbench.engines import SERVER_ENGINES
from stallbench.engines.error_kinds import ErrorKind
from stallbench.engines.starter import answers
from stallbench.errors import NotCarriedOutError
from stallbench.injection.faults.combination import Combination
from stallbench.injection.faults.fault import Fault, FaultOptions, FaultTarget
from stallbench.processes.process import Process
from stallbench.records.injections import Evidence
from stallbench.servers.cluster import Server
from stallbench.waiting import wait_until

_END_S = 60.0
"""How long a server may take to stop cleanly."""
RETURN_S = 120.0
"""How long it may take, once started, to accept connections: crash recovery included."""
_POLL_S = 0.05
_ENDS_SERVER = Combination(place="server", takes="server", ends_early=True)


class OutageOptions(FaultOptions):
    """Options of `Outage`."""

    down_for_s: Duration = Field(
        default=1.0, alias="down_for", ge=0, le=3600, description="from its end until it is started again, as by a supervisor"
    )


class Outage(Fault[OutageOptions]):
    """A server ends and is started again. The fault is over when the server accepts connections."""

    explains_errors = frozenset({ErrorKind.CONNECTION_LOST, ErrorKind.CANNOT_CONNECT})
    targets: ClassVar[tuple[FaultTarget, ...]] = ("server",)
    on_external = "never"
    ends_server = True
    may_end_claims = True
    engines = SERVER_ENGINES
    options_type = OutageOptions

    _process: Process | None = None
    """None until a server was taken down."""
    _ended_s: float | None = None
    """On the monotonic clock, as the times below."""
    _started_s: float | None = None
    _returned_s: float | None = None

    @abstractmethod
    def take_down(self, server: Server, process: Process) -> None:
        """Make the server end. It may still run when this returns."""

    def inject(self) -> Evidence:
        """Take the server down."""
        self._server = self.context.cluster.server(self.on)
        process = self._server.control.process
        if process is None or process.poll() is not None:
            raise NotCarriedOutError(f"{self.on} is not running")
        self._process = process
        self._began_s = time.monotonic()
        self.take_down(self._server, process)
        self._check_end(self._began_s)
        return {"pid": process.pid}

    def tick(self) -> None:
        """Wait for its end, start it again when it is due, and wait until it accepts connections."""
        self._take_step(self.options.down_for_s)

    def is_over(self) -> bool:
        """Whether it accepts connections again."""
        return self._returned_s is not None

    def undo(self) -> Evidence:
        """Start it, if it was not started yet, and wait until it accepts connections."""
        if self._process is None:
            return {}
        # Each step has its own deadline, and its error says which step took too long.
        wait_until(lambda: self._take_step(down_for_s=0.0), within_s=math.inf, every_s=_POLL_S)
        assert self._ended_s is not None
        assert self._started_s is not None
        assert self._returned_s is not None
        return {
            "exit_code": self._process.exit_code,
            "ending_s": round(self._ended_s - self._began_s, 3),
            "down_s": round(self._started_s - self._ended_s, 3),
            "starting_s": round(self._returned_s - self._started_s, 3),
        }

    def _take_step(self, down_for_s: float) -> bool:
        """Check whether it has ended, start it ``down_for_s`` after that, and check whether it accepts connections; returns whether it does."""
        now_s = time.monotonic()
        if self._ended_s is None:
            self._check_end(now_s)
        elif self._started_s is None:
            if now_s >= self._ended_s + down_for_s:
                self._start()
        elif self._returned_s is None:
            self._check_return()
        return self._returned_s is not None

    def _check_end(self, now_s: float) -> None:
        assert self._process is not None
        if self._process.poll() is None:
            if now_s > self._began_s + _END_S:
                raise NotCarriedOutError(f"{self.on} did not end within {_END_S:.0f} s{self._process.tail_log()}")
        elif answers(self._server.direct):
            raise NotCarriedOutError(f"{self.on} was taken down, but it still accepts connections")
        else:
            self._ended_s = now_s

    def _start(self) -> None:
        self._server.control.start_again()
        self._started_s = time.monotonic()

    def _check_return(self) -> None:
        assert self._started_s is not None
        self._server.control.check()
        if answers(self._server.direct):
            self._returned_s = time.monotonic()
        elif time.monotonic() > self._started_s + RETURN_S:
            raise NotCarriedOutError(f"{self.on} was started again, but did not accept connections within {RETURN_S:.0f} s")


class Crash(Outage):
    """The server is killed while it serves clients."""

    kind = "crash"
    meanwhile = "{on} {were} down after a crash"
    combination = _ENDS_SERVER
    summary = "the server is killed with all its processes (SIGKILL), and started again on its data after a while"
    source = "out-of-memory killers, kernel panics, power failures; Que's session locks, which exist only in the server's memory"

    def take_down(self, server: Server, process: Process) -> None:
        """Kill the server."""
        server.control.kill()


class RestartOptions(OutageOptions):
    """Options of `Restart`."""

    down_for_s: Duration = Field(
        default=0.0, alias="down_for", ge=0, le=3600, description="from its end until it is started again"
    )


class Restart(Outage):
    """A planned restart: a setting that needs one, a minor upgrade."""

    kind = "restart"
    meanwhile = "{on} {were} restarted"
    combination = _ENDS_SERVER
    summary = "the server is stopped cleanly, which ends all sessions, and started again"
    source = "minor upgrades and settings that need a restart; PostgreSQL's fast shutdown"
    options_type = RestartOptions

    def take_down(self, server: Server, process: Process) -> None:
        """Ask the server to stop."""
        process.ask_to_stop()
