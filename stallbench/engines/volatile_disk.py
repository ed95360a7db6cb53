"""A file system under a server's data that can lose what was written but not synced, as a disk below the page cache does at a power failure.

It is mounted over the folder that it keeps its files in, and only the server sees it: the folder itself has, at any time, what would be left
after a power failure. ``stallbench/setup/volatile_disk`` has its source, which says what is unsynced.
"""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

from stallbench.engines.private_mount import UNSHARE, PrivateMount
from stallbench.engines.starter import StartContext
from stallbench.errors import NotCarriedOutError
from stallbench.setup.volatile_disk_program import require_volatile_disk_program

_DEVICE = Path("/dev/fuse")
_READY_S = 20.0
_DROP_S = 60.0
_WRITE_BACK_AFTER_S = 30
"""As old as Linux lets dirty pages become before it writes them without a sync (``vm.dirty_expire_centisecs``)."""


class VolatileDisk(PrivateMount):
    """The file system; it exists until its process ends, and its folder remains."""

    def __init__(self, folder: Path, *, user: str | None, context: StartContext) -> None:
        """Mount it over ``folder``, whose files count as synced. ``user``: who runs the server; none for the bench's user.

        Raises `NotCarriedOutError` if this machine does not allow it.
        """
        super().__init__(folder, user, in_user_namespace=False)
        self._context = context
        self._program = require_volatile_disk()
        self.mount()

    def mount(self) -> None:
        """Mount it over its folder, in a new namespace; raises `NotCarriedOutError` if it cannot be mounted."""
        name = f"{self.path.name}-disk"
        self._holder = self._context.processes.start(
            name,
            "disk",
            [*UNSHARE, str(self._program), f"-write-back-after={_WRITE_BACK_AFTER_S}s", str(self.path)],
            log=self._context.logs / f"{name}.log",
            stop_signal=signal.SIGKILL,
            ready=True,
        )
        self._holder.wait_ready(_READY_S)

    def lose_power(self) -> dict[str, Any]:
        """Drop all unsynced data and end; call it when no process uses the file system. Returns how much was dropped."""
        self._holder.intended = "stopped"
        self._holder.signal(signal.SIGUSR1)
        dropped = self._holder.wait_dropped(_DROP_S)
        self._holder.wait_end(_DROP_S)
        return {"unsynced_files": dropped.get("files"), "unsynced_bytes": dropped.get("bytes")}


def require_volatile_disk() -> Path:
    """Return the file system's program; raises `NotCarriedOutError` if this machine cannot mount it."""
    if os.geteuid() != 0:
        raise NotCarriedOutError("database.volatile_cache mounts a file system, which needs root; run the bench as root")
    try:
        os.close(os.open(_DEVICE, os.O_RDWR))
    except OSError as error:
        raise NotCarriedOutError(
            f"database.volatile_cache mounts a FUSE file system, which needs {_DEVICE}: {error.strerror}; "
            "load the kernel module fuse, or, in a container, give it the device and CAP_SYS_ADMIN"
        ) from error
    return require_volatile_disk_program()
