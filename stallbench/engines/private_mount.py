"""A file system in a separate mount namespace, which a process of the run holds open and a server enters.

No other process sees it, and the kernel removes it when both processes have ended, even if they were killed.
"""

from __future__ import annotations

import pwd
import signal
from abc import ABC
from collections.abc import Sequence
from pathlib import Path

from stallbench.processes.process import Process

UNSHARE = ("unshare", "--mount", "--propagation", "private")
"""Runs a command in a new mount namespace, whose mounts are not seen outside."""


class PrivateMount(ABC):
    """The file system; a subclass starts its ``_holder``."""

    _holder: Process

    def __init__(self, path: Path, user: str | None, *, in_user_namespace: bool) -> None:
        """Prepare; nothing is mounted. ``user``: who runs what enters; none for the bench's user."""
        self.path = path
        """Where processes that have entered see it."""
        self._account = pwd.getpwnam(user) if user else None
        self._in_user_namespace = in_user_namespace

    @property
    def path_from_outside(self) -> Path:
        """Where the bench sees it, without entering."""
        return Path(f"/proc/{self._holder.pid}/root{self.path}")

    def enter(self, argv: Sequence[str], death_signal: signal.Signals) -> list[str]:
        """Return a command that runs ``argv`` as the user in its namespace. ``death_signal``: sent to it when its parent dies."""
        namespaces = ["--user", "--mount", "--preserve-credentials"] if self._in_user_namespace else ["--mount"]
        # A change of user clears the parent-death signal that the bench has set: it is set again afterwards.
        dies = f"--pdeathsig={death_signal.name.removeprefix('SIG')}"
        as_user = (
            [f"--reuid={self._account.pw_uid}", f"--regid={self._account.pw_gid}", "--clear-groups"] if self._account else []
        )
        return ["nsenter", *namespaces, "--target", str(self._holder.pid), "setpriv", *as_user, dies, *argv]
