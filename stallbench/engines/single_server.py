"""A private server that consists of one program with one port."""

from __future__ import annotations

import signal
from collections.abc import Callable, Sequence
from pathlib import Path

from pydantic import SecretStr

from stallbench.base.ports import LOOPBACK, start_on_port
from stallbench.engines.starter import ServerProcess, StartContext, wait_until_answering
from stallbench.engines.volatile_disk import VolatileDisk
from stallbench.processes.process import Process
from stallbench.records.endpoint import Endpoint
from stallbench.setup.server_programs import ServerProgram


class SingleServer(ServerProcess):
    """One program that serves one port."""

    start_s = 20.0

    def __init__(
        self,
        name: str,
        engine: str,
        program: ServerProgram,
        context: StartContext,
        *,
        port: int | None,
        user: str = "",
        password: SecretStr | None,
        disk: VolatileDisk | None = None,
    ) -> None:
        """Start nothing yet. ``port``: a free one if none. ``password``: none if the engine has no passwords. ``disk``: of its data."""
        self.name = name
        self.disk = disk
        self.version = program.version
        self.settings_in_force: dict[str, str] = {}
        self._engine = engine
        self._program = program
        self._context = context
        self._user = user
        self._password = password or SecretStr("")
        self._fixed_port = port
        self._port = port or 0
        self._arguments: Callable[[int], Sequence[str]] = lambda _: ()
        self._stop_signal = signal.SIGTERM

    @property
    def endpoint(self) -> Endpoint:
        """Its own address, past the proxy."""
        return Endpoint(
            engine=self._engine, host=LOOPBACK, port=self._port, database="0", user=self._user, password=self._password
        )

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
        self.process = self.launch()
        wait_until_answering(self.name, self.process, self.endpoint, self.start_s)

    def launch(self) -> Process:
        """Start it with its arguments on its port."""
        argv = [str(self._program.path), *self._arguments(self._port)]
        return self._context.processes.start(
            self.name,
            "server",
            self.disk.enter(argv, signal.SIGKILL) if self.disk else argv,
            log=self.log,
            environment={"LC_ALL": "C.UTF-8", **self._program.environment},
            stop_signal=self._stop_signal,
        )
