"""Which data folders of PostgreSQL may be copied: only those of the same program, user and time zone."""

from __future__ import annotations

import pwd
from pathlib import Path
from types import SimpleNamespace

import pytest
from pydantic import SecretStr

from stallbench.engines.postgres import data_folder as postgres_data_folder
from stallbench.engines.postgres.data_folder import create_data_folder
from stallbench.engines.postgres.server import PostgresInstallation
from stallbench.setup.components import PostgresPrograms


def test_a_data_folder_of_a_user_with_another_number_is_not_copied(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Containers that share a cache may have given the user `postgres` different numbers, and the owner of a file is a number."""
    programs: list[str] = []

    def run(installation: PostgresInstallation, program: str, *arguments: str, text: str = "") -> None:
        programs.append(program)

    monkeypatch.setattr(PostgresInstallation, "run", run)
    monkeypatch.setattr(PostgresInstallation, "own", lambda installation, path, mode: None)
    monkeypatch.setattr(postgres_data_folder, "CACHE", tmp_path / "cache")
    (tmp_path / "postgres").touch()
    installation = PostgresInstallation(programs=PostgresPrograms(bin_dir=tmp_path, version="15.1"), user="postgres")
    for start, number in enumerate((101, 999, 101)):
        monkeypatch.setattr(pwd, "getpwnam", lambda name, number=number: SimpleNamespace(pw_uid=number))
        create_data_folder(installation, tmp_path / f"data-{start}", SecretStr("secret"))
    assert programs == ["initdb", "initdb", "postgres"], "only the third copies a folder: that of the first"
