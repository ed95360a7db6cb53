"""Creates a PostgreSQL data folder: a copy of one that `initdb` has created before on this machine, with a new password.

`initdb` takes more than a second of processor time; a copy takes a fifth of that. The result of `initdb` depends only on program, user and time
zone, so a template is used only if these are the same.
"""

from __future__ import annotations

import os
import pwd
from pathlib import Path

from pydantic import SecretStr

from stallbench.engines.data_folder_templates import hash_program, keep_as_template, unpack_template
from stallbench.engines.postgres.server import USER, PostgresInstallation
from stallbench.setup.components import CACHE

_TIME_ZONE = Path("/etc/localtime")


def create_data_folder(installation: PostgresInstallation, data: Path, password: SecretStr, *arguments: str) -> None:
    """Initialise a data folder with the superuser `USER`; all connections need the password. ``arguments``: further ones for initdb."""
    if arguments:
        _initialise(installation, data, password, *arguments)
        return
    template = _name_template(installation)
    if not unpack_template(template, data):
        _initialise(installation, data, password)
        keep_as_template(data, template)
        return
    _set_password(installation, data, password)


def _name_template(installation: PostgresInstallation) -> Path:
    """Return the file of the template for this program, user and time zone."""
    # By its number: in another container that shares the cache, the user of this name may have another one.
    owner = pwd.getpwnam(installation.user).pw_uid if installation.user else os.geteuid()
    key = hash_program(installation.programs.bin_dir / "postgres", owner, _TIME_ZONE.resolve())
    return CACHE / "initdb" / f"{installation.programs.major}-{key}.tar"


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
