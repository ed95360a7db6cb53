"""Installs the locked Python packages into the virtual environment: by uv, or by pip on a machine for which uv has no program.

uv installs the same files and checks the same hashes, in a fraction of the time. Imports the standard library only: set-up runs before
the virtual environment exists.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import sys
from pathlib import Path

from stallbench import IS_WHEEL, PROJECT, __version__
from stallbench.python_command import python_command
from stallbench.setup.components import CACHE
from stallbench.setup.packages import ENVIRONMENT, LOCKS, InstallError, install_debian, install_wheel, output, run, succeeds
from stallbench.setup.requirements import find_unmet_requirements
from stallbench.setup.uv_settings import settings_for_uv

_LOCK = LOCKS / "development.lock"
"""A clone has everything: what runs need, and what the tests and checks need."""
_STAMP = ENVIRONMENT / "locked"
_PYTHON = ENVIRONMENT / "bin" / "python"


def is_environment_complete() -> bool:
    """Whether the virtual environment is complete and agrees with the current locks; from a wheel, whether the bench has the packages it needs."""
    if IS_WHEEL:
        return not find_unmet_requirements()
    programs = (_PYTHON, ENVIRONMENT / "bin" / "stallbench")
    return all(os.access(program, os.X_OK) for program in programs) and _read_text(_STAMP) == fingerprint()


def fingerprint() -> str:
    """Return a text that changes with the locks, the version of Python and the project's folder."""
    project = __version__.encode() if IS_WHEEL else (PROJECT / "pyproject.toml").read_bytes()
    content = (_LOCK).read_bytes() + project
    # Doctor runs within the environment, set-up outside it. The version of Python is the same for both; the path of the program is not.
    return hashlib.sha256(content + sys.version.encode() + str(PROJECT).encode()).hexdigest()


def is_environment_usable() -> bool:
    """Whether there is a virtual environment of this version of Python, with pip: packages can be installed into it."""
    has_this_version = [str(_PYTHON), "-c", f"import sys; sys.exit(sys.version_info[:2] != {sys.version_info[:2]})"]
    return succeeds(has_this_version) and succeeds(python_command("pip", "--version", python=_PYTHON))


def create_environment() -> None:
    """Create an empty virtual environment, if need be with Debian's package for it; raises `InstallError`."""
    shutil.rmtree(ENVIRONMENT, ignore_errors=True)
    create = python_command("venv", str(ENVIRONMENT))
    if not succeeds(create):
        install_debian(f"python{sys.version_info.major}.{sys.version_info.minor}-venv", "python3-venv")
        shutil.rmtree(ENVIRONMENT, ignore_errors=True)
        run(create)


def install_packages() -> None:
    """Install the locked packages and the project itself into the virtual environment; raises `InstallError`."""
    _STAMP.unlink(missing_ok=True)
    try:
        _install_by_uv()
    except InstallError as error:
        print(f"set-up: Python packages: pip installs them, which takes longer, because uv did not: {error}", flush=True)
        _install_by_pip()
    _STAMP.write_text(fingerprint())


def _install_by_uv() -> None:
    uv = install_wheel("installer") / "bin" / "uv"
    own_cache = CACHE / "uv"
    configuration = output(python_command("pip", "config", "list", python=_PYTHON))
    if ".no-index=" in configuration:
        raise InstallError("pip is configured to use no index")
    environment = {"UV_CACHE_DIR": str(own_cache), **settings_for_uv(configuration), **os.environ}
    install = [str(uv), "pip", "install", "--quiet", "--no-progress", "--python", str(_PYTHON), "--no-deps"]
    lock = ["--require-hashes", "--requirement", str(_LOCK)]
    # PySpark has no wheel: uv builds one. Its half a gigabyte consists of archives, which are not worth compressing again.
    build = [
        "--build-constraints",
        str(_LOCK),
        "--config-settings-package",
        "pyspark:--build-option=--compression=stored",
    ]
    try:
        run([*install, *lock, *build, "--compile-bytecode"], environment=environment)
        run([*install, "--no-build-isolation", "--offline", "--editable", str(PROJECT)], environment=environment)
    finally:
        shutil.rmtree(own_cache, ignore_errors=True)


def _install_by_pip() -> None:
    install = python_command("pip", "install", "--quiet", "--disable-pip-version-check", python=_PYTHON)
    run([*install, "--require-hashes", "--requirement", str(_LOCK)])
    run([*install, "--no-deps", "--no-build-isolation", "--no-index", "--editable", str(PROJECT)])


def _read_text(path: Path) -> str | None:
    try:
        return path.read_text()
    except OSError:
        return None
