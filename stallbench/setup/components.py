"""Finds the components that the bench needs from the machine, and names the command that installs each.

Imports the standard library only: set-up runs this before the virtual environment exists.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from stallbench import PROJECT
from stallbench.errors import NotCarriedOutError

CACHE = PROJECT / ".cache"
POSTGRES_MINIMUM = 15
JAVA_MINIMUM = 17
TOXIPROXY_VERSION = "2.12.0"
TOXIPROXY_MODULE = "github.com/Shopify/toxiproxy/v2"
POSTGRES_COMMAND = f"apt-get install postgresql-{POSTGRES_MINIMUM}   (as root, or a newer one)"
JAVA_COMMAND = f"apt-get install openjdk-{JAVA_MINIMUM}-jre-headless   (as root, or a newer one)"
_POSTGRES_OVERRIDE = "STALLBENCH_POSTGRES_BIN"
_SYSTEM_POSTGRES = Path("/usr/lib/postgresql")
_SYSTEM_JAVA = Path("/usr/lib/jvm")
_POSTGRES_PROGRAMS = ("postgres", "initdb", "pg_basebackup", "pgbench")
_RUN_TIMEOUT_S = 20


class MissingComponentError(NotCarriedOutError):
    """A component that the run needs is not installed; the message names the command that installs it."""


@dataclass(frozen=True, kw_only=True)
class PostgresPrograms:
    """PostgreSQL's programs."""

    bin_dir: Path
    version: str

    @property
    def major(self) -> int:
        """Major version."""
        return int(self.version.split(".")[0])


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


@dataclass(frozen=True, kw_only=True)
class ServerProgram:
    """The program of a server of one of the other engines."""

    path: Path
    version: str
    libraries: tuple[Path, ...] = ()
    """Folders with further libraries that it needs: those of Debian packages that were unpacked but not installed."""

    @property
    def environment(self) -> dict[str, str]:
        """The environment variables that the program needs."""
        return {"LD_LIBRARY_PATH": ":".join(map(str, self.libraries))} if self.libraries else {}


MARIADB_MINIMUM = (10, 6)
MARIADB_COMMAND = "apt-get install mariadb-server-core   (as root; 10.6 or later)"
MYSQL_MINIMUM = (8, 0)
MYSQL_COMMAND = "Debian has no package: set STALLBENCH_MYSQL_BIN to the folder with mysqld 8.0 or later, or put it on PATH"
REDIS_COMMAND = "apt-get install redis-server   (as root)"
PGBOUNCER_COMMAND = "apt-get install pgbouncer   (as root)"
BEANSTALKD_COMMAND = "apt-get install beanstalkd   (as root)"
PROMETHEUS_COMMAND = "apt-get install prometheus   (as root), or put a release's folder on PATH"


def find_postgres(major: int | None = None) -> PostgresPrograms | None:
    """Return the newest PostgreSQL from `POSTGRES_MINIMUM` on, or the newest of version ``major``; none if there is none."""
    found = [programs for folder in _postgres_folders() if (programs := _read_postgres(folder)) is not None]
    suitable = [programs for programs in found if programs.major >= POSTGRES_MINIMUM and major in (None, programs.major)]
    return max(suitable, key=lambda programs: [int(number) for number in re.findall(r"\d+", programs.version)], default=None)


def require_postgres(major: int | None = None) -> PostgresPrograms:
    """Return `find_postgres`'s result; raises `MissingComponentError` if there is none."""
    found = find_postgres(major)
    if found is None:
        wanted = f"PostgreSQL {major}" if major else f"PostgreSQL {POSTGRES_MINIMUM} or later"
        given = os.environ.get(_POSTGRES_OVERRIDE)
        raise MissingComponentError(
            f"{_POSTGRES_OVERRIDE} is {given!r}; expected a folder with the programs of {wanted}: {', '.join(_POSTGRES_PROGRAMS)}"
            if given
            else f"{wanted} was not found; install it by `make setup`, or by: {POSTGRES_COMMAND}"
        )
    return found


def find_java() -> JavaRuntime | None:
    """Return the first Java runtime from `JAVA_MINIMUM` on: JAVA_HOME's, the PATH's, the system's, the cache's."""
    for home in _java_homes():
        java = home / "bin" / "java"
        match = re.search(r'version "(\d+)([^"]*)"', _output_of(java, "-version")) if java.is_file() else None
        if match and int(match[1]) >= JAVA_MINIMUM:
            return JavaRuntime(home=home, version=match[1] + match[2])
    return None


def require_java() -> JavaRuntime:
    """Return `find_java`'s result; raises `MissingComponentError` if there is none."""
    found = find_java()
    if found is None:
        raise MissingComponentError(
            f"a Java runtime, version {JAVA_MINIMUM} or later, was not found; install it by `make setup`, or by: {JAVA_COMMAND}"
        )
    return found


def find_toxiproxy() -> ToxiproxyProgram | None:
    """Return Toxiproxy `TOXIPROXY_VERSION` from PATH or from the project's cache; none if there is none."""
    on_path = shutil.which("toxiproxy-server")
    for path in (*([Path(on_path)] if on_path else []), CACHE / "bin" / "toxiproxy-server"):
        if os.access(path, os.X_OK) and _is_toxiproxy(path):
            return ToxiproxyProgram(path=path, version=TOXIPROXY_VERSION)
    return None


def require_toxiproxy() -> ToxiproxyProgram:
    """Return `find_toxiproxy`'s result; raises `MissingComponentError` if there is none."""
    found = find_toxiproxy()
    if found is None:
        raise MissingComponentError(f"Toxiproxy {TOXIPROXY_VERSION} was not found; install it by: make setup")
    return found


def find_mariadb() -> ServerProgram | None:
    """Return the first MariaDB from `MARIADB_MINIMUM` on: STALLBENCH_MARIADB_BIN's, the PATH's, the system's, the cache's."""
    return _find_server(("mariadbd", "mysqld"), "STALLBENCH_MARIADB_BIN", "mariadb", r"([\d.]+)-MariaDB", MARIADB_MINIMUM)


def find_mysql() -> ServerProgram | None:
    """Return the first MySQL from `MYSQL_MINIMUM` on: STALLBENCH_MYSQL_BIN's, the PATH's, the system's."""
    return _find_server(("mysqld",), "STALLBENCH_MYSQL_BIN", "mysql", r"Ver ([\d.]+)(?!\S*MariaDB)", MYSQL_MINIMUM)


def find_redis() -> ServerProgram | None:
    """Return the first Redis: STALLBENCH_REDIS_BIN's, the PATH's, the system's, the cache's."""
    return _find_server(("redis-server",), "STALLBENCH_REDIS_BIN", "redis", r"v=([\d.]+)", (6,))


def find_beanstalkd() -> ServerProgram | None:
    """Return the first Beanstalkd: STALLBENCH_BEANSTALKD_BIN's, the PATH's, the system's, the cache's."""
    return _find_server(("beanstalkd",), "STALLBENCH_BEANSTALKD_BIN", "beanstalkd", r"beanstalkd ([\d.]+)", (1,), "-v")


def find_pgbouncer() -> ServerProgram | None:
    """Return the first pgbouncer: STALLBENCH_PGBOUNCER_BIN's, the PATH's, the system's, the cache's."""
    return _find_server(("pgbouncer",), "STALLBENCH_PGBOUNCER_BIN", "pgbouncer", r"PgBouncer ([\d.]+)", (1,))


def require_pgbouncer() -> ServerProgram:
    """Return `find_pgbouncer`'s result; raises `MissingComponentError` if there is none."""
    found = find_pgbouncer()
    if found is None:
        raise MissingComponentError(f"pgbouncer was not found; install it by `make setup`, or by: {PGBOUNCER_COMMAND}")
    return found


def find_prometheus() -> ServerProgram | None:
    """Return the first Prometheus: STALLBENCH_PROMETHEUS_BIN's, the PATH's, the system's, the cache's."""
    return _find_server(("prometheus",), "STALLBENCH_PROMETHEUS_BIN", "prometheus", r"prometheus, version ([\d.]+)", (2, 30))


def require_prometheus() -> ServerProgram:
    """Return `find_prometheus`'s result; raises `MissingComponentError` if there is none."""
    found = find_prometheus()
    if found is None:
        raise MissingComponentError(f"Prometheus was not found; install it by `make setup`, or by: {PROMETHEUS_COMMAND}")
    return found


_FINDERS = {
    "mariadb": (find_mariadb, MARIADB_COMMAND),
    "mysql": (find_mysql, MYSQL_COMMAND),
    "redis": (find_redis, REDIS_COMMAND),
    "beanstalkd": (find_beanstalkd, BEANSTALKD_COMMAND),
}


def require_server(engine: str, title: str) -> ServerProgram:
    """Return the program of an engine's server; raises `MissingComponentError` if it is not there."""
    find, command = _FINDERS[engine]
    found = find()
    if found is None:
        how = f"install it by `make setup`, or by: {command}" if engine != "mysql" else command
        raise MissingComponentError(f"{title} was not found; {how}")
    return found


def _find_server(
    names: tuple[str, ...], override: str, cached: str, pattern: str, minimum: tuple[int, ...], version_option: str = "--version"
) -> ServerProgram | None:
    for path, libraries in _server_programs(names, override, cached):
        if not os.access(path, os.X_OK):
            continue
        environment = {**os.environ, **ServerProgram(path=path, version="", libraries=libraries).environment}
        match = re.search(pattern, _output_of(path, version_option, environment=environment))
        if match and tuple(int(number) for number in match[1].strip(".").split(".")) >= minimum:
            return ServerProgram(path=path, version=match[1].strip("."), libraries=libraries)
    return None


def _server_programs(names: tuple[str, ...], override: str, cached: str) -> Iterator[tuple[Path, tuple[Path, ...]]]:
    if given := os.environ.get(override):
        yield from ((Path(given) / name, ()) for name in names)
        return
    for name in names:
        if on_path := shutil.which(name):
            yield Path(on_path).resolve(), ()
        yield from ((Path(folder) / name, ()) for folder in ("/usr/sbin", "/usr/local/sbin"))
    unpacked = CACHE / cached
    libraries = tuple(sorted(folder for folder in unpacked.glob("**/lib/*-linux-gnu") if folder.is_dir()))
    for name in names:
        yield from ((unpacked / "usr" / folder / name, libraries) for folder in ("sbin", "bin"))


def _postgres_folders() -> Iterator[Path]:
    if given := os.environ.get(_POSTGRES_OVERRIDE):
        yield Path(given)
        return
    on_path = shutil.which("postgres")
    if on_path:
        yield Path(on_path).resolve().parent
    yield from _SYSTEM_POSTGRES.glob("*/bin")
    yield from CACHE.glob("postgres/**/bin")


def _read_postgres(folder: Path) -> PostgresPrograms | None:
    if not all(os.access(folder / program, os.X_OK) for program in _POSTGRES_PROGRAMS):
        return None
    match = re.search(r"(\d+(?:\.\d+)?)", _output_of(folder / "postgres", "--version"))
    return PostgresPrograms(bin_dir=folder, version=match[1]) if match else None


def _is_toxiproxy(program: Path) -> bool:
    """Whether the program has the required version.

    A release prints its version. A program that `go install` built prints "git", but contains the version in its build information.
    """
    if f"\nmod\t{TOXIPROXY_MODULE}\tv{TOXIPROXY_VERSION}\t".encode() in program.read_bytes():
        return True
    return re.search(rf"\b{re.escape(TOXIPROXY_VERSION)}\b", _output_of(program, "--version")) is not None


def _java_homes() -> Iterator[Path]:
    if given := os.environ.get("JAVA_HOME"):
        yield Path(given)
    if on_path := shutil.which("java"):
        yield Path(on_path).resolve().parent.parent
    yield from sorted(_SYSTEM_JAVA.glob("*"), reverse=True)
    yield from CACHE.glob("java/**/java-runtime")


def _output_of(program: Path, *arguments: str, environment: Mapping[str, str] | None = None) -> str:
    try:
        ended = subprocess.run(
            [program, *arguments], env=environment, capture_output=True, text=True, timeout=_RUN_TIMEOUT_S, check=False
        )
    except (OSError, subprocess.SubprocessError):
        return ""
    return ended.stdout + ended.stderr
