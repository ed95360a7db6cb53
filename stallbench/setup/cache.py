"""Who may read and change the folder of the components: a copy of it, or a CI cache, can have lost its owner and its permissions.

Imports the standard library only: set-up runs before the virtual environment exists.
"""

from __future__ import annotations

import os
import pwd
import stat
from contextlib import suppress
from pathlib import Path

from stallbench.setup.components import CACHE
from stallbench.setup.packages import ENVIRONMENT, run

_OF_OTHERS = stat.S_IROTH | stat.S_IXOTH
_PRIVATE = frozenset({"initdb", "mysql-data"})
"""Folders with the data folders of servers, which only the bench's own user reads."""


def open_to_servers() -> None:
    """Let the user that root starts servers as read the components again, if they are closed to others; raises `InstallError`."""
    if os.geteuid() != 0:
        return
    folders = [path for path in CACHE.iterdir() if path.name not in _PRIVATE and path.is_dir() and not path.is_symlink()]
    closed = [path for path in folders if path.stat().st_mode & _OF_OTHERS != _OF_OTHERS]
    if CACHE.stat().st_mode & _OF_OTHERS != _OF_OTHERS:
        run(["chmod", "o+rx", str(CACHE)])
    if closed:
        run(["chmod", "-R", "o+rX", *map(str, closed)])


def describe_remedy(path: str | None) -> str:
    """Return what to do if ``path``, which could not be used, is in a folder of the bench that belongs to another user; else nothing."""
    for folder in (CACHE, ENVIRONMENT):
        if path is not None and Path(path).is_relative_to(folder):
            with suppress(OSError):
                if folder.stat().st_uid != os.geteuid():
                    return (
                        f"; {folder} belongs to {_name_of(folder.stat().st_uid)}: as root, either give it to this user by "
                        f"`chown -R {_name_of(os.geteuid())} {folder}`, or remove it by `rm -r {folder}`"
                    )
    return ""


def _name_of(user: int) -> str:
    try:
        return pwd.getpwuid(user).pw_name
    except KeyError:
        return str(user)
