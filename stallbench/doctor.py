"""What the bench needs from this machine, and whether it is there: ``stallbench doctor``."""

from __future__ import annotations

import os
import platform
import shutil
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass

from stallbench.parts import (
    MissingPartError,
    require_java,
    require_postgres,
    require_toxiproxy,
)
from stallbench.processes import unprivileged_user
from stallbench.servers.ports import find_free_port

_SPARE_BYTES = 2 * 1024**3


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckUp:
    """One thing that was looked at."""

    name: str
    ok: bool
    told: str
    """What was found, or what would mend it."""


def check() -> list[CheckUp]:
    """Look at every part, and at what the machine must allow."""
    return [
        CheckUp(name="Python", ok=sys.version_info >= (3, 11), told=f"{platform.python_version()} in {sys.prefix}"),
        _look("PostgreSQL", lambda: f"{require_postgres().version} in {require_postgres().bin_dir}"),
        _look("Java", lambda: f"{require_java().version} in {require_java().home}"),
        _look("Toxiproxy", lambda: f"{require_toxiproxy().version}: {require_toxiproxy().path}"),
        _check_user(),
        _check_disk(),
        CheckUp(name="loopback", ok=True, told=f"a port can be had, like {find_free_port()}"),
    ]


def render(check_ups: list[CheckUp]) -> str:
    """Return one line for each, and a last one that sums up."""
    lines = [f"{'ok     ' if c.ok else 'MISSING'}  {c.name:<12} {c.told}" for c in check_ups]
    missing = sum(not c.ok for c in check_ups)
    return "\n".join([*lines, f"{missing} missing; `make setup` installs what it can" if missing else "everything is there"])


def _look(name: str, find: Callable[[], str]) -> CheckUp:
    try:
        return CheckUp(name=name, ok=True, told=find())
    except MissingPartError as error:
        return CheckUp(name=name, ok=False, told=str(error))


def _check_user() -> CheckUp:
    user = unprivileged_user()
    if user is None:
        return CheckUp(name="user", ok=True, told=f"not root (uid {os.geteuid()}): servers run as you")
    return CheckUp(name="user", ok=True, told=f"root: servers run as {user}")


def _check_disk() -> CheckUp:
    folder = tempfile.gettempdir()
    free = shutil.disk_usage(folder).free
    told = f"{free / 1024**3:.1f} GiB free in {folder}, where servers keep their data"
    return CheckUp(name="disk", ok=free >= _SPARE_BYTES, told=told if free >= _SPARE_BYTES else f"only {told}; 2 GiB are needed")
