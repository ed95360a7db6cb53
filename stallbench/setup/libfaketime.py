"""Finds libfaketime, which shifts the wall clock of a process, and unpacks it from Debian's package when it is first needed.

Imports the standard library only, as the rest of set-up does.
"""

from __future__ import annotations

import hashlib
import sys
from pathlib import Path

from stallbench.setup.components import CACHE, MissingComponentError, require_trusted_program
from stallbench.setup.packages import unpack_debian
from stallbench.setup.steps import Step, carry_out, one_at_a_time

_PACKAGE = "libfaketime"
_LIBRARY = "usr/lib/*-linux-gnu/faketime/libfaketimeMT.so.1"
"""The one for programs with several threads."""
_COMMAND = f"apt-get install {_PACKAGE}   (as root)"
_CHANGES = (
    # A name in the table of names. Only its first letter changes: the table may use its end for `nanosleep`.
    (b"\0clock_nanosleep\0", b"\0-lock_nanosleep\0"),
    # The pattern of a name that the system does not allow.
    (b"/faketime_sem_%ld\0", b"/faketime/sem_%ld\0"),
)


def require_libfaketime() -> Path:
    """Return the shared library, for ``LD_PRELOAD``; it is unpacked when it is first needed.

    It is a copy with two changes. It does not replace ``clock_nanosleep``: version 0.9.10, which is Debian's, shifts a time of the monotonic clock
    there although it is told to leave this clock alone (its next version does not), so that Python's ``time.sleep`` fails or sleeps for too long.
    And it shares no memory with other processes, which needs a semaphore: a process that is killed would leave both behind.

    Raises `MissingComponentError` if it cannot be had; the message says why.
    """
    reason: str | None = None
    try:
        with one_at_a_time():
            if _find() is None:
                reason = carry_out(_step(), sys.stderr)
            if (found := _find()) is not None:
                return _changed(found)
    except OSError as error:
        reason = f"{error.filename or CACHE}: {error.strerror}"
    raise MissingComponentError(
        f"the fault clock_skew needs {_PACKAGE} for the workers of a library, and it could not be installed ({reason}); "
        f"install it by: {_COMMAND}"
    )


def _find() -> Path | None:
    """Return the machine's, or the unpacked one; none if there is none."""
    found = next((path for root in (Path("/"), CACHE / _PACKAGE) for path in root.glob(_LIBRARY)), None)
    return require_trusted_program(found) if found and found.is_relative_to(CACHE) else found


def _step() -> Step:
    return Step(
        name=_PACKAGE,
        is_installed=lambda: _find() is not None,
        install=lambda: unpack_debian(_PACKAGE, _PACKAGE),
        command=_COMMAND,
        is_needed=False,
        lane="Debian packages",
    )


def _changed(library: Path) -> Path:
    """Return a copy in the cache with `_CHANGES`."""
    content = library.read_bytes()
    for found, instead in _CHANGES:
        content = content.replace(found, instead, 1)
    copy = CACHE / "worker-clocks" / f"{_PACKAGE}-{hashlib.sha256(content).hexdigest()[:12]}.so"
    if not copy.exists():
        copy.parent.mkdir(exist_ok=True)
        fresh = copy.with_suffix(".new")
        fresh.write_bytes(content)
        fresh.replace(copy)
    return require_trusted_program(copy)
