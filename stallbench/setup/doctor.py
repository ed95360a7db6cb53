"""Checks whether this machine has what the bench needs: ``stallbench doctor``."""

from __future__ import annotations

import os
import platform
import pwd
import resource
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from stallbench import IS_WHEEL, PROJECT
from stallbench.base.ports import LOOPBACK, find_free_port
from stallbench.setup.components import (
    SETUP_COMMAND,
    MissingComponentError,
    PostgresPrograms,
    find_postgres,
    require_java,
    require_postgres,
    require_toxiproxy,
)
from stallbench.setup.jars import S3A, find_jars, read_jars
from stallbench.setup.python_packages import is_environment_complete
from stallbench.setup.requirements import find_unmet_requirements
from stallbench.setup.server_programs import SERVER_COMPONENTS, ServerComponent, describe_missing, find_server, unprivileged_user

_SPARE_BYTES = 2 * 1024**3
_SHARED_MEMORY = Path("/dev/shm")  # noqa: S108 - only its size is read
_SPARE_SHARED_BYTES = 32 * 1024**2
"""A server's parallel queries exchange rows there. Containers have 64 MiB, most machines half of the memory."""
_FILES = 1024
_PROCESSES = 512
_PROGRAM_TIMEOUT_S = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class MachineCheck:
    """The result of one check."""

    name: str
    ok: bool
    description: str
    """What was found, or what to do."""
    is_needed: bool = True
    """Whether every scenario needs it."""


def check() -> Iterator[MachineCheck]:
    """Check every component, and the limits of the machine, one after the other: some start a program."""
    yield MachineCheck(name="Python", ok=sys.version_info >= (3, 11), description=f"{platform.python_version()} in {sys.prefix}")
    yield _check_packages()
    yield _check_component("PostgreSQL", lambda: f"{require_postgres().version} in {require_postgres().bin_dir}")
    yield from _check_statement_counts()
    yield _check_component("Java", lambda: f"{require_java().version} in {require_java().home}")
    yield _check_component("Toxiproxy", lambda: f"{require_toxiproxy().version}: {require_toxiproxy().path}")
    yield from map(_check_server, SERVER_COMPONENTS.values())
    yield _check_s3a()
    yield _check_user()
    yield _check_disk()
    yield _check_shared_memory()
    yield _check_loopback()
    yield _check_limits()
    if IS_WHEEL:
        yield MachineCheck(name="pages", ok=True, description=f"{PROJECT / 'docs'}, which messages name docs/")


def render(machine_checks: list[MachineCheck]) -> str:
    """Return one line for each check, and a summary as the last line."""
    lines = [
        f"{'ok     ' if c.ok else 'MISSING' if c.is_needed else 'absent '}  {c.name:<13} {c.description}" for c in machine_checks
    ]
    missing = sum(not c.ok and c.is_needed for c in machine_checks)
    return "\n".join([*lines, f"{missing} missing; `{SETUP_COMMAND}` installs what it can" if missing else "nothing is missing"])


def _check_component(name: str, find: Callable[[], str]) -> MachineCheck:
    try:
        return MachineCheck(name=name, ok=True, description=find())
    except MissingComponentError as error:
        return MachineCheck(name=name, ok=False, description=str(error))


def _check_statement_counts() -> list[MachineCheck]:
    """Check the extension of PostgreSQL that counts statements, if PostgreSQL is there."""
    postgres = _find_usable_postgres()
    if postgres is None:
        return []
    description = (
        "counts statements, so that reports can say which one became slow"
        if postgres.counts_statements
        else f"is not in {postgres.bin_dir.parent}, so expectations about claim_statement are unknown; "
        "install the package with PostgreSQL's contrib modules"
    )
    return [MachineCheck(name="pg_stat_statements", ok=postgres.counts_statements, description=description, is_needed=False)]


def _find_usable_postgres() -> PostgresPrograms | None:
    """Return PostgreSQL's programs; none if there are none, or others could change them, which the check of PostgreSQL says."""
    try:
        return find_postgres()
    except MissingComponentError:
        return None


def _check_server(component: ServerComponent) -> MachineCheck:
    """Check a server program that only some scenarios need."""
    try:
        found = find_server(component.key)
    except MissingComponentError as error:
        return MachineCheck(name=component.title, ok=False, description=str(error), is_needed=False)
    if found is None:
        when = ", and it is installed when it is first needed" if component.package else ""
        description = f"{describe_missing(component)}; only {component.purpose}{when}"
        return MachineCheck(name=component.title, ok=False, description=description, is_needed=False)
    return MachineCheck(name=component.title, ok=True, description=f"{found.version}: {found.path}")


def _check_s3a() -> MachineCheck:
    try:
        found = find_jars(S3A)
    except MissingComponentError as error:
        return MachineCheck(name="S3 for Spark", ok=False, description=str(error), is_needed=False)
    if found is None:
        description = (
            f"{len(read_jars(S3A))} Java libraries were not found; only `report s3a://...` needs them, and downloads them when they are "
            "first needed"
        )
        return MachineCheck(name="S3 for Spark", ok=False, description=description, is_needed=False)
    return MachineCheck(name="S3 for Spark", ok=True, description=f"{len(found)} Java libraries in {found[0].parent}")


def _check_packages() -> MachineCheck:
    if IS_WHEEL:
        unmet = find_unmet_requirements()
        found = "; ".join(unmet) if unmet else "are what the installed bench needs"
        return MachineCheck(name="packages", ok=not unmet, description=found)
    ok = is_environment_complete()
    description = (
        "agree with requirements/development.lock"
        if ok
        else "do not agree with requirements/development.lock; install them by: make setup"
    )
    return MachineCheck(name="packages", ok=ok, description=description)


def _check_user() -> MachineCheck:
    user = unprivileged_user()
    if user is None:
        return MachineCheck(name="user", ok=True, description=f"not root (uid {os.geteuid()}): servers run as you")
    postgres = _find_usable_postgres()
    refusal = _why_not_runnable(str(postgres.bin_dir / "postgres"), user) if postgres else None
    if refusal is not None:
        return MachineCheck(
            name="user", ok=False, description=f"root: servers run as {user}, which cannot run PostgreSQL: {refusal}"
        )
    return MachineCheck(name="user", ok=True, description=f"root: servers run as {user}")


def _why_not_runnable(program: str, user: str) -> str | None:
    """Return why ``user`` cannot run a program, if so; usually the program is in a folder that only root may enter."""
    try:
        account = pwd.getpwnam(user)
        subprocess.run(
            [program, "--version"],
            user=account.pw_uid,
            group=account.pw_gid,
            extra_groups=[],
            cwd="/",
            capture_output=True,
            timeout=_PROGRAM_TIMEOUT_S,
            check=True,
        )
    except KeyError:
        return "there is no such user"
    except (OSError, subprocess.SubprocessError) as error:
        return str(error)
    return None


def _check_disk() -> MachineCheck:
    folder = tempfile.gettempdir()
    return _check_space("disk", Path(folder), _SPARE_BYTES, "for the servers' data")


def _check_shared_memory() -> MachineCheck:
    if not _SHARED_MEMORY.is_dir():
        return MachineCheck(name="shared memory", ok=False, description=f"{_SHARED_MEMORY} does not exist; mount a tmpfs on it")
    return _check_space("shared memory", _SHARED_MEMORY, _SPARE_SHARED_BYTES, "for rows that parallel queries exchange")


def _check_space(name: str, folder: Path, needed_bytes: int, purpose: str) -> MachineCheck:
    free_bytes = shutil.disk_usage(folder).free
    description = f"{_size(free_bytes)} free in {folder}, {purpose}"
    ok = free_bytes >= needed_bytes
    return MachineCheck(
        name=name, ok=ok, description=description if ok else f"only {description}; {_size(needed_bytes)} are needed"
    )


def _size(count_bytes: int) -> str:
    return f"{count_bytes / 1024**3:.1f} GiB" if count_bytes >= 1024**3 else f"{count_bytes / 1024**2:.0f} MiB"


def _check_loopback() -> MachineCheck:
    try:
        return MachineCheck(name="loopback", ok=True, description=f"has free ports, like {find_free_port()}")
    except OSError as error:
        return MachineCheck(name="loopback", ok=False, description=f"{LOOPBACK} has no free port: {error.strerror}")


def _check_limits() -> MachineCheck:
    files, processes = (resource.getrlimit(kind)[0] for kind in (resource.RLIMIT_NOFILE, resource.RLIMIT_NPROC))
    description = f"{_count(files)} open files, {_count(processes)} processes"
    if _allows(files, _FILES) and _allows(processes, _PROCESSES):
        return MachineCheck(name="limits", ok=True, description=description)
    return MachineCheck(
        name="limits",
        ok=False,
        description=f"only {description}; raise the limits to {_FILES} and {_PROCESSES} by: ulimit -n {_FILES} -u {_PROCESSES}",
    )


def _allows(limit: int, needed: int) -> bool:
    return limit == resource.RLIM_INFINITY or limit >= needed


def _count(limit: int) -> str:
    return "any number of" if limit == resource.RLIM_INFINITY else str(limit)
