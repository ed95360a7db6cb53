"""A small file system for a server of the run, which can be filled without effect on other programs.

It is a tmpfs in a separate mount namespace. A process of the run holds the namespace open, and the server enters it. No other process sees the
file system, and the kernel removes it when both processes have ended, even if they were killed. If the bench is not root, it creates the
namespace within a user namespace, if the machine allows that.
"""

from __future__ import annotations

import errno
import os
import pwd
import signal
from collections.abc import Sequence
from pathlib import Path

from stallbench.errors import NotCarriedOutError
from stallbench.processes.supervisor import Supervisor

_READY_S = 10.0
_CHUNK_BYTES = 1 << 16
_PAGE_BYTES = 4096
_BALLAST = "ballast"
_HOLD = """
mount -t tmpfs -o size={megabytes}m,mode=0700{owner} tmpfs '{path}' || exit 1
echo '{{"ready": {{}}}}'
exec setpriv --pdeathsig KILL sleep infinity
"""


class SmallDisk:
    """The file system; it exists until its process ends."""

    def __init__(self, path: Path, *, megabytes: int, user: str | None, logs: Path, processes: Supervisor) -> None:
        """Create it; processes that enter see it at ``path``. ``user``: its owner, none if the bench is not root.

        Raises `NotCarriedOutError` if this machine does not allow it.
        """
        path.mkdir(mode=0o755)
        self.path = path
        """Where processes that have entered see it."""
        self._account = pwd.getpwnam(user) if user else None
        owner = f",uid={self._account.pw_uid},gid={self._account.pw_gid}" if self._account else ""
        unshare = ["unshare", "--mount", "--propagation", "private"]
        if self._account is None:
            unshare += ["--user", "--map-current-user", "--keep-caps"]
        self._holder = processes.start(
            path.name,
            "disk",
            [*unshare, "sh", "-c", _HOLD.format(megabytes=megabytes, owner=owner, path=path)],
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

    def enter(self, argv: Sequence[str], death_signal: signal.Signals) -> list[str]:
        """Return a command that runs ``argv`` as the disk's owner in its namespace. ``death_signal``: sent to it when its parent dies."""
        pid = str(self._holder.pid)
        # A change of user clears the parent-death signal that the bench has set: it is set again afterwards.
        dies = f"--pdeathsig={death_signal.name.removeprefix('SIG')}"
        if self._account is None:
            return ["nsenter", "--user", "--mount", "--preserve-credentials", "--target", pid, "setpriv", dies, *argv]
        as_owner = [f"--reuid={self._account.pw_uid}", f"--regid={self._account.pw_gid}", "--clear-groups"]
        return ["nsenter", "--mount", "--target", pid, "setpriv", *as_owner, dies, *argv]

    @property
    def free_bytes(self) -> int:
        """Bytes that can still be written."""
        found = os.statvfs(self._path_from_outside)
        return found.f_bavail * found.f_frsize

    def fill(self) -> int:
        """Write a ballast file until the file system is full; returns the size of the file."""
        ballast = self._path_from_outside / _BALLAST
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
        (self._path_from_outside / _BALLAST).unlink(missing_ok=True)

    @property
    def _path_from_outside(self) -> Path:
        return Path(f"/proc/{self._holder.pid}/root{self.path}")
