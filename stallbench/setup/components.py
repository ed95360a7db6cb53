"""Finds the components that every scenario needs from the machine, and names the command that installs each.

Imports the standard library only: set-up runs this before the virtual environment exists.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import stat
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from stallbench import IS_WHEEL, PROJECT
from stallbench.base.storage.private import PROGRAMS, UntrustedError, require_trusted
from stallbench.errors import NotCarriedOutError

_OF_ROOT = Path("/var/cache")
"""Not in root's home, which the users that root starts servers as cannot read."""


def find_cache(*, is_wheel: bool = IS_WHEEL) -> Path:
    """Return the folder for components: in the clone; for an installed bench the user's cache, as the XDG specification has it, or root's.

    That of root, too, for root's clone in a folder that others cannot enter, like root's home: servers run as another user.
    """
    if not is_wheel:
        return PROJECT / ".cache" if os.geteuid() != 0 or _is_open_to_all(PROJECT) else _OF_ROOT / "stallbench"
    if given := os.environ.get("XDG_CACHE_HOME"):
        return Path(given) / "stallbench"
    return (_OF_ROOT if os.geteuid() == 0 else Path.home() / ".cache") / "stallbench"


def _is_open_to_all(folder: Path) -> bool:
    return all(each.stat().st_mode & stat.S_IXOTH for each in (folder, *folder.parents))


CACHE = find_cache().resolve()
"""Without links: packages write its path into their files, which must not depend on the link by which it was reached."""
SETUP_COMMAND = "stallbench setup" if IS_WHEEL else "make setup"
SETUP_COMPONENTS_COMMAND = f"{SETUP_COMMAND} components" if IS_WHEEL else SETUP_COMMAND
POSTGRES_MINIMUM = 14
_POSTGRES_OF_DEBIAN = 15
"""Of the oldest Debian that this is tested on."""
JAVA_MINIMUM = 17
TOXIPROXY_VERSION = "2.12.0"
TOXIPROXY_MODULE = "github.com/Shopify/toxiproxy/v2"
POSTGRES_COMMAND = f"apt-get install postgresql-{_POSTGRES_OF_DEBIAN}   (as root, or a newer one)"
JAVA_COMMAND = f"apt-get install openjdk-{JAVA_MINIMUM}-jre-headless   (as root, or a newer one)"
POSTGRES_OVERRIDE = "STALLBENCH_POSTGRES_BIN"
_SYSTEM_POSTGRES = Path("/usr/lib/postgresql")
_SYSTEM_JAVA = Path("/usr/lib/jvm")
_POSTGRES_PROGRAMS = ("postgres", "initdb")
_RUN_TIMEOUT_S = 20


class MissingComponentError(NotCarriedOutError):
    """A component that the run needs is not installed; the message names the command that installs it."""


def require_trusted_program(path: Path) -> Path:
    """Return a program, or a folder with programs or libraries, that is about to be used from the cache or from a folder that a variable names.

    Raises `MissingComponentError`, with the remedy, if a user who is trusted neither as root nor as the owner of the bench's code can have put it
    there or can change it. Nothing is said of one that is not there.
    """
    try:
        require_trusted(path, PROGRAMS)
    except FileNotFoundError:
        return path
    except UntrustedError as error:
        raise MissingComponentError(f"{path} is not used: {error}; {_describe_way_to_trust(path)}") from None
    return path


def _describe_way_to_trust(path: Path) -> str:
    """Return what to do with a program that another user may have made."""
    if not path.is_relative_to(CACHE):
        return "or name a folder to which no other user can write"
    component = CACHE / path.relative_to(CACHE).parts[0] if path != CACHE else CACHE
    return f"or remove it by `rm -r {shlex.quote(str(component))}`, and install it again by `{SETUP_COMPONENTS_COMMAND}`"


@dataclass(frozen=True, kw_only=True)
class PostgresPrograms:
    """PostgreSQL's programs."""

    bin_dir: Path
    version: str

    @property
    def major(self) -> int:
        """Major version."""
        return int(self.version.split(".")[0])

    def require(self, program: str, purpose: str) -> Path:
        """Return the path of a program that only some tasks need; raises `MissingComponentError` if the folder does not have it.

        ``purpose``: what needs it, like "the benchmark".
        """
        path = self.bin_dir / program
        if not os.access(path, os.X_OK):
            raise MissingComponentError(
                f"{purpose} needs {program}, which is not in {self.bin_dir} (PostgreSQL {self.version}); "
                f"set {POSTGRES_OVERRIDE} to a folder that has it, or install it by: {POSTGRES_COMMAND}"
            )
        return path

    @property
    def counts_statements(self) -> bool:
        """Whether ``pg_stat_statements`` is installed; Debian's and PostgreSQL's own packages contain it."""
        libraries = self.bin_dir.parent / "lib"
        return any((folder / "pg_stat_statements.so").is_file() for folder in (libraries, libraries / "postgresql"))


@dataclass(frozen=True, kw_only=True)
class JavaRuntime:
    """A Java runtime for Spark."""

    home: Path
    version: str


@dataclass(frozen=True, kw_only=True)
class ToxiproxyProgram:
    """Toxiproxy's server."""

    path: Path
    version: str


def find_postgres(major: int | None = None) -> PostgresPrograms | None:
    """Return the newest PostgreSQL from `POSTGRES_MINIMUM` on, or the newest of version ``major``; none if there is none."""
    suitable = [programs for programs in find_all_postgres() if major in (None, programs.major)]
    return max(suitable, key=lambda programs: [int(number) for number in re.findall(r"\d+", programs.version)], default=None)


def find_all_postgres() -> list[PostgresPrograms]:
    """Return every PostgreSQL from `POSTGRES_MINIMUM` on that the machine has."""
    found = [programs for folder in _postgres_folders() if (programs := read_postgres(folder)) is not None]
    return [programs for programs in found if programs.major >= POSTGRES_MINIMUM]


def require_postgres(major: int | None = None) -> PostgresPrograms:
    """Return `find_postgres`'s result; raises `MissingComponentError` if there is none."""
    found = find_postgres(major)
    if found is None:
        wanted = f"PostgreSQL {major}" if major else f"PostgreSQL {POSTGRES_MINIMUM} or later"
        given = os.environ.get(POSTGRES_OVERRIDE)
        raise MissingComponentError(
            f"{POSTGRES_OVERRIDE} is {given!r}; expected a folder with the programs of {wanted}: {', '.join(_POSTGRES_PROGRAMS)}"
            if given
            else f"{wanted} was not found; install it by `{SETUP_COMMAND}`, or by: {POSTGRES_COMMAND}"
        )
    return found


def find_java() -> JavaRuntime | None:
    """Return the first Java runtime from `JAVA_MINIMUM` on: JAVA_HOME's, the PATH's, the system's, the cache's."""
    for home in _java_homes():
        java = home / "bin" / "java"
        if home.is_relative_to(CACHE):
            require_trusted_program(java)
        match = re.search(r'version "(\d+)([^"]*)"', output_of(java, "-version")) if java.is_file() else None
        if match and int(match[1]) >= JAVA_MINIMUM:
            return JavaRuntime(home=home, version=match[1] + match[2])
    return None


def require_java() -> JavaRuntime:
    """Return `find_java`'s result; raises `MissingComponentError` if there is none."""
    found = find_java()
    if found is None:
        raise MissingComponentError(
            f"a Java runtime, version {JAVA_MINIMUM} or later, was not found; install it by `{SETUP_COMMAND}`, or by: {JAVA_COMMAND}"
        )
    return found


def find_toxiproxy() -> ToxiproxyProgram | None:
    """Return Toxiproxy `TOXIPROXY_VERSION` from PATH or from the project's cache; none if there is none."""
    on_path = shutil.which("toxiproxy-server")
    for path in (*([Path(on_path)] if on_path else []), CACHE / "bin" / "toxiproxy-server"):
        if path.is_relative_to(CACHE):
            require_trusted_program(path)
        if os.access(path, os.X_OK) and _is_toxiproxy(path):
            return ToxiproxyProgram(path=path, version=TOXIPROXY_VERSION)
    return None


def require_toxiproxy() -> ToxiproxyProgram:
    """Return `find_toxiproxy`'s result; raises `MissingComponentError` if there is none."""
    found = find_toxiproxy()
    if found is None:
        raise MissingComponentError(f"Toxiproxy {TOXIPROXY_VERSION} was not found; install it by: {SETUP_COMMAND}")
    return found


def _postgres_folders() -> Iterator[Path]:
    if given := os.environ.get(POSTGRES_OVERRIDE):
        yield Path(given)
        return
    on_path = shutil.which("postgres")
    if on_path:
        yield Path(on_path).resolve().parent
    yield from _SYSTEM_POSTGRES.glob("*/bin")
    yield from CACHE.glob("postgres/**/bin")


def read_postgres(folder: Path) -> PostgresPrograms | None:
    """Return PostgreSQL's programs in a folder; none if the folder does not have those that every server needs."""
    if not all(os.access(folder / program, os.X_OK) for program in _POSTGRES_PROGRAMS):
        return None
    if folder.is_relative_to(CACHE) or os.environ.get(POSTGRES_OVERRIDE):
        for program in _POSTGRES_PROGRAMS:
            require_trusted_program(folder / program)
    match = re.search(r"(\d+(?:\.\d+)?)", output_of(folder / "postgres", "--version"))
    return PostgresPrograms(bin_dir=folder, version=match[1]) if match else None


def _is_toxiproxy(program: Path) -> bool:
    """Whether the program has the required version.

    A release prints its version. A program that `go install` built prints "git", but contains the version in its build information.
    """
    if f"\nmod\t{TOXIPROXY_MODULE}\tv{TOXIPROXY_VERSION}\t".encode() in program.read_bytes():
        return True
    return re.search(rf"\b{re.escape(TOXIPROXY_VERSION)}\b", output_of(program, "--version")) is not None


def _java_homes() -> Iterator[Path]:
    if given := os.environ.get("JAVA_HOME"):
        yield Path(given)
    if on_path := shutil.which("java"):
        yield Path(on_path).resolve().parent.parent
    yield from sorted(_SYSTEM_JAVA.glob("*"), reverse=True)
    yield from CACHE.glob("java/**/java-runtime")


def output_of(program: Path, *arguments: str, environment: Mapping[str, str] | None = None) -> str:
    """Return what a program prints; nothing if it cannot be run."""
    try:
        ended = subprocess.run(
            [program, *arguments], env=environment, capture_output=True, text=True, timeout=_RUN_TIMEOUT_S, check=False
        )
    except (OSError, subprocess.SubprocessError):
        return ""
    return ended.stdout + ended.stderr
