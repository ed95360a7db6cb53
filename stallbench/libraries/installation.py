"""Installs a library and what it depends on into the project's cache, when it is first used; afterwards it works offline.

Nothing is installed for an application that has no locks: its command is that of its own environment.

The folder's name contains a fingerprint of the locks, so a library whose lock has changed is installed anew. `stallbench.libraries.packages` has
the kinds of packages.
"""

from __future__ import annotations

import hashlib
import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from stallbench.errors import NotCarriedOutError
from stallbench.libraries.definition import Library, LibraryError
from stallbench.libraries.packages import KINDS, PackageKind
from stallbench.libraries.packages.kind import CONTRACT
from stallbench.setup.components import CACHE, require_trusted_program
from stallbench.setup.packages import InstallError
from stallbench.setup.steps import one_at_a_time

_DONE = "installed"
"""The file that marks a complete installation and contains the folder's path: scripts and settings of some packages contain that path, too."""
_PYTHON = {"PYTHONDONTWRITEBYTECODE": "1", "PYTHONUNBUFFERED": "1"}
"""Adapters print without delay, and write nothing into the library's folder."""


def kinds_of(library: Library) -> list[PackageKind]:
    """Return the kinds of packages of which the library consists, in the order in which they are installed."""
    return [kind for kind in KINDS if kind.files(library.folder)]


def installation_of(library: Library) -> Path:
    """Return the folder that contains the library, or will contain it."""
    key = hashlib.sha256(_read_locks(library) + sys.version.encode()).hexdigest()[:16]
    return CACHE / "libraries" / f"{_cache_name(library)}-{key}"


def hash_locks(library: Library) -> str:
    """Return a hash of what decides which packages are installed for the library."""
    return hashlib.sha256(_read_locks(library)).hexdigest()[:16]


def _read_locks(library: Library) -> bytes:
    return b"".join(path.read_bytes() for kind in kinds_of(library) for path in kind.files(library.folder))


def is_installed(library: Library) -> bool:
    """Whether the library is installed completely, in its locked version, and its folder was not moved since."""
    target = installation_of(library)
    return not kinds_of(library) or (_is_done(target) and not _has_lost_its_python(target))


def find_missing_requirement(library: Library) -> str | None:
    """Return what the library needs and this machine does not have, what was found, and what to do; none if it can be installed, or is installed."""
    if is_installed(library):
        return None
    missing = (kind.find_missing_requirement(library) for kind in kinds_of(library))
    return next((f"{library.title_and_version} needs {one}" for one in missing if one), None)


def require_installable(library: Library) -> None:
    """Raise `LibraryError` if the library is not installed and cannot be installed on this machine."""
    if missing := find_missing_requirement(library):
        raise LibraryError(missing)


def require_installed(library: Library, say: Callable[[str], None]) -> None:
    """Install the library if it is not; ``say`` takes a progress line.

    Raises `NotCarriedOutError` with the reason, or `LibraryError` if the machine does not have what the library needs, or the program that its
    command names.
    """
    require_installable(library)
    if not is_installed(library):
        _install_once(library, say)
    program = command_of(library, "work")[0]
    if shutil.which(program) is None:
        raise LibraryError(
            f"{library.folder / 'library.toml'}: command is {json.dumps(library.command[0])}, but {program} is no program; "
            "expected one on the PATH, or a path from the folder"
        )


def _install_once(library: Library, say: Callable[[str], None]) -> None:
    say(f"installing {library.title_and_version}, once")
    target = installation_of(library)
    try:
        with one_at_a_time():
            if not is_installed(library):
                _install(library, target)
    except (InstallError, OSError, subprocess.SubprocessError) as error:
        shutil.rmtree(target, ignore_errors=True)
        raise NotCarriedOutError(f"{library.title_and_version} could not be installed: {error}") from None


def command_of(library: Library, verb: str) -> list[str]:
    """Return the command that carries out ``verb`` of an installed library; run it in the environment of `environment_of`."""
    target = require_trusted_program(installation_of(library))
    programs = {name: path for kind in kinds_of(library) for name, path in kind.programs(target).items()}
    first, *others = (str(programs.get(part, part)) for part in library.command)
    program = str(library.folder / first) if "/" in first else first
    arguments = [str(library.folder / other) if (library.folder / other).is_file() else other for other in others]
    return [program, *arguments, verb]


def environment_of(library: Library) -> dict[str, str]:
    """Return the environment variables that let an adapter import its language's contract module and the library, but nothing of the bench."""
    target, contract = installation_of(library), str(CONTRACT / library.language)
    of_kinds = {name: value for kind in kinds_of(library) for name, value in kind.environment(target).items()}
    of_language = {"PYTHONPATH": contract, **_PYTHON} if library.language == "python" else {}
    return {**of_kinds, **of_language, "STALLBENCH_LIBRARY": str(target), "STALLBENCH_CONTRACT": contract}


def _cache_name(library: Library) -> str:
    """Return a unique name: libraries outside of the project can have equal names."""
    is_own = library.folder.parent == CONTRACT.parent
    return library.name if is_own else f"{library.name}.{hashlib.sha256(str(library.folder).encode()).hexdigest()[:8]}"


def _is_done(target: Path) -> bool:
    done = target / _DONE
    return done.is_file() and done.read_text() == str(target)


def _has_lost_its_python(target: Path) -> bool:
    """Whether the Python for which the environment was made was removed from the machine."""
    python = target / "bin" / "python"
    return python.is_symlink() and not python.exists()


def _install(library: Library, target: Path) -> None:
    for stale in target.parent.glob(f"{_cache_name(library)}-*"):
        shutil.rmtree(stale, ignore_errors=True)
    target.mkdir(parents=True)
    for kind in kinds_of(library):
        kind.install(library, target)
    (target / _DONE).write_text(str(target))
