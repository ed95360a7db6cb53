"""A small file system for a server of the run, which can be filled without effect on other programs.

It is a tmpfs. If the bench is not root, it creates the mount namespace within a user namespace, if the machine allows that.
"""

from __future__ import annotations

import errno
import os
import signal
import subprocess
from pathlib import Path

from stallbench.engines.private_mount import UNSHARE, PrivateMount
from stallbench.errors import NotCarriedOutError
from stallbench.processes.supervisor import Supervisor

_READY_S = 10.0
_CHUNK_BYTES = 1 << 16
_PAGE_BYTES = 4096
_BALLAST = "ballast"
_LARGER = 4
"""Factor by which `SmallDisk.enlarge` changes the size."""
_HOLD = """
mount -t tmpfs -o size={megabytes}m,mode=0700{owner} tmpfs '{path}' || exit 1
echo '{{"ready": {{}}}}'
exec setpriv --pdeathsig KILL sleep infinity
"""


class SmallDisk(PrivateMount):
    """The file system; it exists until its process ends."""

    def __init__(self, path: Path, *, megabytes: int, user: str | None, logs: Path, processes: Supervisor) -> None:
        """Create it; processes that enter see it at ``path``. ``user``: its owner, none if the bench is not root.

        Raises `NotCarriedOutError` if this machine does not allow it.
        """
        super().__init__(path, user, in_user_namespace=user is None)
        path.mkdir(mode=0o755)
        self._megabytes = megabytes
        owner = f",uid={self._account.pw_uid},gid={self._account.pw_gid}" if self._account else ""
        as_root = [] if self._account else ["--user", "--map-current-user", "--keep-caps"]
        self._holder = processes.start(
            path.name,
            "disk",
            [*UNSHARE, *as_root, "sh", "-c", _HOLD.format(megabytes=megabytes, owner=owner, path=path)],
            log=logs / f"{path.name}.log",
            stop_signal=signal.SIGKILL,
            ready=True,
        )
        try:
            self._holder.wait_ready(_READY_S)
        except NotCarriedOutError as error:
            raise NotCarriedOutError(
                "a small disk needs a mount namespace, which this machine does not allow the bench to create "
                f"(that needs CAP_SYS_ADMIN, or unprivileged user namespaces): {error}"
            ) from error

    def enlarge(self) -> int:
        """Make it four times as large, and return the new size in MB. Raises `NotCarriedOutError` if the kernel refuses."""
        pid = str(self._holder.pid)
        user = [] if self._account else ["--user", "--preserve-credentials"]
        remount = ["mount", "-o", f"remount,size={_LARGER * self._megabytes}m", str(self.path)]
        ended = subprocess.run(
            ["nsenter", *user, "--mount", "--target", pid, *remount], capture_output=True, text=True, check=False
        )
        if ended.returncode != 0:
            raise NotCarriedOutError(f"the small disk could not be enlarged: {ended.stderr.strip()}")
        self._megabytes *= _LARGER
        return self._megabytes

    @property
    def free_bytes(self) -> int:
        """Bytes that can still be written."""
        found = os.statvfs(self.path_from_outside)
        return found.f_bavail * found.f_frsize

    def fill(self) -> int:
        """Write a ballast file until the file system is full; returns the size of the file."""
        ballast = self.path_from_outside / _BALLAST
        with ballast.open("ab", buffering=0) as file:
            for size in (_CHUNK_BYTES, _PAGE_BYTES):
                try:
                    while self.free_bytes >= size:
                        file.write(bytes(size))
                except OSError as error:
                    if error.errno != errno.ENOSPC:
                        raise
        return ballast.stat().st_size

    def clear(self) -> None:
        """Remove the ballast."""
        (self.path_from_outside / _BALLAST).unlink(missing_ok=True)
