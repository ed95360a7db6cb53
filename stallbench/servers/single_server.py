"""A private server that consists of one program with one port: Redis, Beanstalkd."""

from __future__ import annotations

import signal
from collections.abc import Callable, Sequence
from pathlib import Path

from pydantic import SecretStr

from stallbench.base.ports import LOOPBACK, start_on_port
from stallbench.engines import Engine
from stallbench.processes.process import Process
from stallbench.records.endpoint import Endpoint
from stallbench.servers.starter import StartContext, check_process, wait_until_answering
from stallbench.servers.volatile_disk import VolatileDisk
from stallbench.setup.server_programs import ServerProgram

_START_S = 20.0


class SingleServer:
    """One program that serves one port."""

    def __init__(
        self,
        name: str,
        engine: Engine,
        program: ServerProgram,
        context: StartContext,
        *,
        port: int | None,
        password: SecretStr | None,
        disk: VolatileDisk | None = None,
    ) -> None:
        """Start nothing yet. ``port``: a free one if none. ``password``: none if the engine has no passwords. ``disk``: of its data."""
        self.name = name
        self.disk = disk
        self.process: Process | None = None
        self.version = program.version
        self.settings_in_force: dict[str, str] = {}
        self._engine: Engine = engine
        self._program = program
        self._context = context
        self._password = password or SecretStr("")
        self._fixed_port = port
        self._port = port or 0
        self._arguments: Callable[[int], Sequence[str]] = lambda _: ()
        self._stop_signal = signal.SIGTERM

    @property
    def endpoint(self) -> Endpoint:
        """Its own address, past the proxy."""
        return Endpoint(engine=self._engine, host=LOOPBACK, port=self._port, database="0", user="", password=self._password)

    @property
    def log(self) -> Path:
        """Its text log."""
        return self._context.logs / f"{self.name}.log"

    def start(self, arguments: Callable[[int], Sequence[str]], *, stop_signal: signal.Signals = signal.SIGTERM) -> None:
        """Start it with ``arguments`` for a port and wait until it answers; raises `NotCarriedOutError` if it does not.

        ``stop_signal``: as for `Supervisor.start`.
        """
        self._arguments, self._stop_signal = arguments, stop_signal
        start_on_port(self._fixed_port, self._start_on)

    def _start_on(self, port: int) -> None:
        self._port = port
        self.process = self._launch()
        wait_until_answering(self.name, self.process, self.endpoint, _START_S)

    def stop(self) -> None:
        """Shut it down cleanly."""
        if self.process:
            self.process.stop(_START_S)

    def kill(self) -> None:
        """Kill it."""
        if self.process:
            self.process.kill()

    def start_again(self) -> None:
        """Start it on the same port with the same arguments."""
        self.process = self._launch()

    def check(self) -> None:
        """Raise `NotCarriedOutError` if it exited unexpectedly."""
        check_process(self.name, self.process)

    def _launch(self) -> Process:
        argv = [str(self._program.path), *self._arguments(self._port)]
        return self._context.processes.start(
            self.name,
            "server",
            self.disk.enter(argv, signal.SIGKILL) if self.disk else argv,
            log=self.log,
            environment={"LC_ALL": "C.UTF-8", **self._program.environment},
            stop_signal=self._stop_signal,
        )
