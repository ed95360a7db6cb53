"""The parent-death signal: the kernel ends a child when its parent has ended."""

from __future__ import annotations

import ctypes
import os
import signal
from collections.abc import Callable

_PR_SET_PDEATHSIG = 1
_LIBC = ctypes.CDLL(None, use_errno=True)


def die_with_parent(death_signal: signal.Signals) -> Callable[[], None]:
    """Return a function for a new process to call first: the kernel then sends it ``death_signal`` when its parent thread ends."""
    parent = os.getpid()

    def set_death_signal() -> None:
        # After fork, and after the change of user, which would clear it. The parent may have died before the call.
        if _LIBC.prctl(_PR_SET_PDEATHSIG, int(death_signal)) != 0 or os.getppid() != parent:
            os._exit(127)

    return set_death_signal
