"""The power of a server fails: its processes end, and what they wrote but did not sync is lost."""

from __future__ import annotations

from stallbench.engines import engines_with
from stallbench.engines.starter import ServerProcess
from stallbench.engines.volatile_disk import VolatileDisk
from stallbench.errors import NotCarriedOutError
from stallbench.injection.faults.outage import Outage
from stallbench.processes.process import Process
from stallbench.processes.reaper import remove_shared_memory
from stallbench.records.injections import Evidence
from stallbench.servers.cluster import Server

_PID_FILE = "postmaster.pid"


class PowerLoss(Outage):
    """The server is killed, and data that it had not synced are lost. After a `Crash` they are not lost, because the kernel still writes them."""

    kind = "power_loss"
    meanwhile = "{on} lost its power"
    summary = (
        "the server is killed with all its processes, the data that it wrote but did not sync are dropped, and it is started again "
        "on what is left"
    )
    source = "power failures, kernel panics, virtual machines that are reset; Jepsen's LazyFS"
    targets = ("primary",)
    engines = engines_with("volatile_cache")
    needs_of_database = ("volatile_cache", "true")

    _dropped: Evidence | None = None

    def take_down(self, server: Server, process: Process) -> None:
        """Kill the server, and drop what is unsynced."""
        server.control.kill()
        # A power failure also clears shared memory. The server would remove it only if its pid file still existed.
        remove_shared_memory(self._disk.path_from_outside / _PID_FILE)
        self._dropped = self._disk.lose_power()

    def inject(self) -> Evidence:
        """Take the server down and count what was dropped. Nothing is taken down if its disk cannot drop anything."""
        self._disk = self._require_disk(self.context.cluster.server(self.on))
        return super().inject() | (self._dropped or {})

    def _require_disk(self, server: Server) -> VolatileDisk:
        control = server.control
        disk = control.disk if isinstance(control, ServerProcess) else None
        if not isinstance(disk, VolatileDisk):
            raise NotCarriedOutError(
                f"{self.on} is not on a file system that can drop unsynced data; set database.volatile_cache = true"
            )
        return disk

    def _start(self) -> None:
        self._disk.mount()
        super()._start()

    def _check_return(self) -> None:
        try:
            super()._check_return()
        except NotCarriedOutError as error:
            raise NotCarriedOutError(
                f"{self.on} could not recover from the data that were synced before the power failure: {error}"
            ) from error
