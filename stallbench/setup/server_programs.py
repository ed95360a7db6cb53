"""Finds the server programs that only some scenarios need, and installs one when it is first needed: from Debian's packages, or by Go.

An engine's program is declared by the file ``program.toml`` in its folder, whose keys are the fields of `ServerComponent`.

Imports the standard library only: set-up runs before the virtual environment exists.
"""

from __future__ import annotations

import hashlib
import os
import pwd
import re
import shutil
import sys
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from stallbench.setup.components import CACHE, SETUP_COMPONENTS_COMMAND, MissingComponentError, output_of, require_trusted_program
from stallbench.setup.go_toolchain import build_module
from stallbench.setup.packages import InstallError, unpack_debian
from stallbench.setup.steps import Step, carry_out, one_at_a_time


@dataclass(frozen=True, kw_only=True)
class ServerProgram:
    """The program of a server."""

    path: Path
    version: str
    libraries: tuple[Path, ...] = ()
    """Folders with further libraries that it needs: those of Debian packages that were unpacked but not installed."""

    @property
    def environment(self) -> dict[str, str]:
        """The environment variables that the program needs."""
        return {"LD_LIBRARY_PATH": ":".join(map(str, self.libraries))} if self.libraries else {}


@dataclass(frozen=True, kw_only=True)
class ServerComponent:
    """A server program as a component: how it is recognised, and how it is installed."""

    title: str
    programs: tuple[str, ...]
    """What it may be called."""
    version_pattern: str
    """Finds its version in what it prints when it is given ``version_option``."""
    minimum: tuple[int, ...]
    """The oldest version that the bench can use."""
    command: str
    """How to install it by hand."""
    package: str | None = None
    """Debian's package that contains it; none if Debian has no package."""
    go_package: str | None = None
    """The package in Go that it is built from when it is first needed, by the module in ``go_module``, whose ``go.sum`` has the hashes of all that is
    compiled."""
    go_module: Path | None = None
    purpose: str = "scenarios on this engine need it"
    """What needs it."""
    version_option: str = "--version"

    @property
    def is_installable(self) -> bool:
        """Whether set-up can install it."""
        return self.package is not None or self.go_package is not None

    @property
    def key(self) -> str:
        """Name of its folder in the cache."""
        return self.title.lower()

    @property
    def override(self) -> str:
        """The environment variable that names the only folders to search, separated as in PATH."""
        return f"STALLBENCH_{self.title.upper()}_BIN"


_ENGINES = Path(__file__).resolve().parents[1] / "engines"
_GO_MODULE = "program"
"""Folder beside an engine's ``program.toml`` with the ``go.mod`` and ``go.sum`` of a program that is built by Go."""


def _read_component(path: Path) -> ServerComponent:
    declared: dict[str, Any] = {
        key: tuple(value) if isinstance(value, list) else value for key, value in tomllib.loads(path.read_text()).items()
    }
    module = path.parent / _GO_MODULE if "go_package" in declared else None
    return ServerComponent(**declared, go_module=module)


_OTHERS = (
    ServerComponent(
        title="pgbouncer",
        programs=("pgbouncer",),
        version_pattern=r"PgBouncer ([\d.]+)",
        minimum=(1,),
        package="pgbouncer",
        command="apt-get install pgbouncer   (as root)",
        purpose="scenarios with a pooler need it",
    ),
    ServerComponent(
        title="Prometheus",
        programs=("prometheus",),
        version_pattern=r"prometheus, version ([\d.]+)",
        minimum=(2, 30),
        package="prometheus",
        command="apt-get install prometheus   (as root), or put a release's folder on PATH",
        purpose="`run --watch` needs it",
    ),
)
_SYSTEM_FOLDERS = ("/usr/sbin", "/usr/local/sbin")
SERVER_COMPONENTS: Mapping[str, ServerComponent] = {
    component.key: component for component in (*map(_read_component, sorted(_ENGINES.glob("*/program.toml"))), *_OTHERS)
}


def find_servers(key: str) -> Iterator[ServerProgram]:
    """Yield every program that is recent enough, of each version the first: the override's, the PATH's, the system's, the cache's."""
    component = SERVER_COMPONENTS[key]
    versions = set()
    for path, libraries in _candidates(component):
        if not os.access(path, os.X_OK):
            continue
        if os.environ.get(component.override) or path.is_relative_to(CACHE):
            for used in (path, *libraries):
                require_trusted_program(used)
        environment = {**os.environ, **ServerProgram(path=path, version="", libraries=libraries).environment}
        match = re.search(component.version_pattern, output_of(path, component.version_option, environment=environment))
        if not match or tuple(int(number) for number in match[1].strip(".").split(".")) < component.minimum:
            continue
        version = match[1].strip(".")
        if version not in versions:
            versions.add(version)
            yield ServerProgram(path=path, version=version, libraries=libraries)


def find_server(key: str, version: str | None = None) -> ServerProgram | None:
    """Return the first of `find_servers`, or the first of a ``version``: ``10.11`` is any 10.11."""
    of_version = (one for one in find_servers(key) if version is None or f"{one.version}.".startswith(f"{version}."))
    return next(of_version, None)


def require_server(key: str) -> ServerProgram:
    """Return `find_server`'s result; a program that is missing is first put into the cache, which takes some seconds, or a minute if it is built.

    Raises `MissingComponentError` if it is still missing; the message says why.
    """
    found = find_server(key)
    if found is not None:
        return found
    component, reason = SERVER_COMPONENTS[key], None
    if component.is_installable and not os.environ.get(component.override):
        try:
            with one_at_a_time():
                reason = carry_out(installing_step(component), sys.stderr)
        except OSError as error:
            reason = f"{error.filename or CACHE}: {error.strerror}"
        if (found := find_server(key)) is not None:
            return found
    raise MissingComponentError(describe_missing(component, reason))


def describe_missing(component: ServerComponent, reason: str | None = None) -> str:
    """Say that a component is missing, with the ``reason`` why it could not be installed, and how to install it."""
    if given := os.environ.get(component.override):
        wanted = f"{component.title} {'.'.join(map(str, component.minimum))} or later"
        return f"{component.override} is {given!r}; expected a folder with {' or '.join(component.programs)} of {wanted}"
    if not component.is_installable:
        return f"{component.title} was not found; {component.command}"
    failed = f" and could not be installed ({reason})" if reason else ""
    return f"{component.title} was not found{failed}; install it by `{SETUP_COMPONENTS_COMMAND}`, or by: {component.command}"


def installing_step(component: ServerComponent) -> Step:
    """Return the step that puts an installable component into the project's cache: unpacked from its Debian package, or built by Go."""
    package = component.package
    return Step(
        name=component.title,
        is_installed=lambda: find_server(component.key) is not None,
        install=lambda: unpack_debian(component.key, package) if package is not None else _build(component),
        command=component.command,
        is_needed=False,
        lane="Debian packages" if package is not None else "Go programs",
    )


def _build(component: ServerComponent) -> None:
    """Build the component's program; one of an earlier ``go.sum`` is removed."""
    assert component.go_module is not None
    assert component.go_package is not None
    program = _built(component)
    shutil.rmtree(program.parent.parent, ignore_errors=True)
    program.parent.mkdir(parents=True)
    fresh = program.with_suffix(".new")
    build_module(component.go_module, fresh, package=component.go_package)
    if not fresh.is_file():
        raise InstallError("go built no program")
    fresh.replace(program)


def _built(component: ServerComponent) -> Path:
    """Where the component is built: another place for each ``go.sum``."""
    assert component.go_module is not None
    modules = hashlib.sha256((component.go_module / "go.sum").read_bytes()).hexdigest()[:12]
    return CACHE / component.key / modules / component.programs[0]


def _candidates(component: ServerComponent) -> Iterator[tuple[Path, tuple[Path, ...]]]:
    """Yield where the program may be, with the libraries that were unpacked for it."""
    unpacked = CACHE / component.key
    libraries = tuple(sorted(folder for folder in unpacked.glob("**/lib/*-linux-gnu") if folder.is_dir()))
    if given := os.environ.get(component.override):
        folders = [Path(folder) for folder in given.split(os.pathsep) if folder]
        for folder in folders:
            needs = libraries if folder.resolve().is_relative_to(unpacked.resolve()) else ()
            yield from ((folder / name, needs) for name in component.programs)
        return
    for name in component.programs:
        if on_path := shutil.which(name):
            yield Path(on_path), ()
        yield from ((Path(folder) / name, ()) for folder in _SYSTEM_FOLDERS)
    if component.go_package is not None:
        yield _built(component), ()
    for name in component.programs:
        yield from ((unpacked / "usr" / folder / name, libraries) for folder in ("sbin", "bin"))


def unprivileged_user() -> str | None:
    """Return the user that runs servers that refuse root: ``postgres`` or else ``nobody``; none if the bench is not root."""
    if os.geteuid() != 0:
        return None
    try:
        return pwd.getpwnam("postgres").pw_name
    except KeyError:
        return "nobody"
