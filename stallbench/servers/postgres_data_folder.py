"""Creates a PostgreSQL data folder: a copy of one that `initdb` has created before on this machine, with a new password.

`initdb` takes more than a second of processor time; a copy takes a fifth of that. The result of `initdb` depends only on program, user and time
zone, so a template is used only if these are the same.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import subprocess
from contextlib import suppress
from pathlib import Path

from pydantic import SecretStr

from stallbench.servers.postgres import USER, PostgresInstallation
from stallbench.setup.components import CACHE

_TIME_ZONE = Path("/etc/localtime")
_FRESH = ".new"


def create_data_folder(installation: PostgresInstallation, data: Path, password: SecretStr, *arguments: str) -> None:
    """Initialise a data folder with the superuser `USER`; all connections need the password. ``arguments``: further ones for initdb."""
    if arguments:
        _initialise(installation, data, password, *arguments)
        return
    template = _name_template(installation)
    if not _copy(template, data):
        _initialise(installation, data, password)
        _keep(data, template)
        return
    _set_password(installation, data, password)


def _name_template(installation: PostgresInstallation) -> Path:
    """Return the folder of the template for this program, user and time zone."""
    program = (installation.programs.bin_dir / "postgres").resolve()
    state = program.stat()
    parts = (program, state.st_size, state.st_mtime_ns, installation.user or os.geteuid(), _TIME_ZONE.resolve())
    key = hashlib.sha256(repr(parts).encode()).hexdigest()[:16]
    return CACHE / "initdb" / f"{installation.programs.major}-{key}"


def _copy(template: Path, data: Path) -> bool:
    """Copy a template, with its owners and permissions; returns whether that was possible."""
    if not template.is_dir():
        return False
    copied = subprocess.run(["cp", "--archive", str(template), str(data)], capture_output=True, check=False)
    if copied.returncode != 0:
        shutil.rmtree(data, ignore_errors=True)
    return copied.returncode == 0


def _keep(data: Path, template: Path) -> None:
    """Keep a new data folder as a template; if that is not possible, the next one is initialised, too."""
    with suppress(OSError):
        template.parent.mkdir(parents=True, exist_ok=True)
        with (template.parent / "lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)  # another process keeps one just now
            fresh = template.with_name(template.name + _FRESH)
            shutil.rmtree(fresh, ignore_errors=True)
            if _copy(data, fresh) and not template.exists():
                fresh.rename(template)
            shutil.rmtree(fresh, ignore_errors=True)


def _set_password(installation: PostgresInstallation, data: Path, password: SecretStr) -> None:
    text = password.get_secret_value().replace("'", "''")
    installation.run("postgres", "--single", "-D", str(data), "postgres", text=f"ALTER ROLE {USER} PASSWORD '{text}'\n")


def _initialise(installation: PostgresInstallation, data: Path, password: SecretStr, *arguments: str) -> None:
    data.mkdir(parents=True, exist_ok=True)
    installation.own(data, 0o700)
    password_file = data.parent / "password"
    password_file.touch(mode=0o600)
    installation.own(password_file, 0o600)
    password_file.write_text(password.get_secret_value())
    try:
        installation.run(
            "initdb",
            f"--pgdata={data}",
            f"--username={USER}",
            f"--pwfile={password_file}",
            "--auth=scram-sha-256",
            "--encoding=UTF8",
            "--locale=C.UTF-8",
            "--no-sync",
            *arguments,
        )
    finally:
        password_file.unlink()
