"""Which process is meant: its id and the moment of its start. An id alone may belong to another process by now.

A run lists the processes that it starts in a file of its temporary folder, so that a reaper knows them whatever else they have become: a server
that runs as another user hides its environment.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from stallbench.base.storage.private import TrustedFolder

STARTED_FILE = "started"
"""In the temporary folder of a run: a line for each process, with the computer's start, the process's id, and its start."""
_START_FIELD = 19
"""Of ``/proc/PID/stat``, counted from the state: clock ticks since the computer's start."""


@dataclass(frozen=True, slots=True)
class ProcessIdentity:
    """A process, while it lives and afterwards."""

    pid: int
    start_ticks: int

    def is_alive(self) -> bool:
        """Whether it still runs; one that has ended and that nobody has waited for does not."""
        return _read_living(self.pid) == self

    def send(self, signum: signal.Signals) -> None:
        """Send it a signal, and no other process that has its id by now; nothing if it has ended, or may not be signalled by this user."""
        with suppress(ProcessLookupError, PermissionError):
            try:
                fd = os.pidfd_open(self.pid)
            except ProcessLookupError:
                raise
            except OSError:  # a kernel or a container without this call
                if self.is_alive():
                    os.kill(self.pid, signum)
                return
            try:
                if self.is_alive():  # looked at after it was opened, so it is the opened one
                    signal.pidfd_send_signal(fd, signum)
            finally:
                os.close(fd)


def record_start(folder: Path, pid: int) -> None:
    """List a process that was just started in the temporary ``folder`` of its run."""
    if (started := _read_living(pid)) is None:
        return  # it has ended already
    fd = os.open(folder / STARTED_FILE, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        os.write(fd, f"{_boot_id()} {started.pid} {started.start_ticks}\n".encode())
    finally:
        os.close(fd)


def read_started(folder: TrustedFolder) -> Iterator[ProcessIdentity]:
    """Yield the listed processes that still run. Raises `UntrustedError` if somebody else can have written the list."""
    boot_id = _boot_id()
    for line in (folder.read(STARTED_FILE) or b"").decode(errors="replace").splitlines():
        match line.split():
            case [boot, pid, ticks] if boot == boot_id and pid.isdecimal() and ticks.isdecimal():
                if (started := ProcessIdentity(int(pid), int(ticks))).is_alive():
                    yield started


def find_own_with(variable: bytes) -> Iterator[ProcessIdentity]:
    """Yield the running processes of this user that have ``variable``, like ``NAME=value``, in their environment; not the calling one."""
    for name in os.listdir("/proc"):  # noqa: PTH208 - a Path for each process is not needed
        if not name.isdecimal() or int(name) == os.getpid():
            continue
        found = _read_living(int(name))
        if found is not None and _has_own(int(name), variable) and found.is_alive():
            yield found


def _has_own(pid: int, variable: bytes) -> bool:
    """Whether a process of this user has the variable; one that has ended, or that this user may not look at, has not."""
    try:
        with Path(f"/proc/{pid}/environ").open("rb") as file:
            return os.fstat(file.fileno()).st_uid == os.geteuid() and variable in file.read().split(b"\0")
    except OSError:
        return False


def _read_living(pid: int) -> ProcessIdentity | None:
    try:
        # The name of the program, in brackets, may contain spaces and brackets.
        state, *fields = Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()
    except (OSError, ValueError):
        return None
    return None if state in (b"Z", b"X") else ProcessIdentity(pid, int(fields[_START_FIELD - 1]))


def _boot_id() -> str:
    return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
