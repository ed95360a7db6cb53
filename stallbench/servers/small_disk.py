"""A small file system for a server of the run, that can be filled without harm to anybody else.

It is a tmpfs in a mount namespace of its own, which a process of the run holds open and its server enters: nobody outside sees it, and it is
gone with the two of them, whatever ended them. Who is not root makes the namespace within a user namespace, where the machine lets him.
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
    """The file system, from when it is made until its process is ended."""

    def __init__(self, path: Path, *, megabytes: int, user: str | None, logs: Path, processes: Supervisor) -> None:
        """Make it, to be seen at ``path`` by whoever enters; ``user``: who owns it, none if the bench is not root.

        Raises `NotCarriedOutError` if this machine does not let the bench make any.
        """
        path.mkdir(mode=0o755)
        self.path = path
        """Where those who have entered see it."""
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
                "a small disk needs a mount namespace, which this machine does not let the bench make "
                f"(it takes CAP_SYS_ADMIN, or user namespaces for everybody): {error}"
            ) from error

    def enter(self, argv: Sequence[str], death_signal: signal.Signals) -> list[str]:
        """Return how ``argv`` is run by the disk's owner where the disk is seen; ``death_signal``: sent to it when its parent dies."""
        pid = str(self._holder.pid)
        # What the bench sets for its children is lost when they become somebody else: it is set again afterwards.
        dies = f"--pdeathsig={death_signal.name.removeprefix('SIG')}"
        if self._account is None:
            return ["nsenter", "--user", "--mount", "--preserve-credentials", "--target", pid, "setpriv", dies, *argv]
        becomes = [f"--reuid={self._account.pw_uid}", f"--regid={self._account.pw_gid}", "--clear-groups"]
        return ["nsenter", "--mount", "--target", pid, "setpriv", *becomes, dies, *argv]

    @property
    def free_bytes(self) -> int:
        """What can still be written."""
        found = os.statvfs(self._from_outside)
        return found.f_bavail * found.f_frsize

    def fill(self) -> int:
        """Write into a file of ballast until nothing more can be written, and return how large that is."""
        ballast = self._from_outside / _BALLAST
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
        (self._from_outside / _BALLAST).unlink(missing_ok=True)

    @property
    def _from_outside(self) -> Path:
        return Path(f"/proc/{self._holder.pid}/root{self.path}")
