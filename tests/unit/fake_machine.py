"""A machine made of folders: programs are small scripts that print their version as the real programs do."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

import pytest

from stallbench.setup import components

POSTGRES_PROGRAMS = ("postgres", "initdb")


@dataclass(frozen=True, kw_only=True)
class FakeMachine:
    """The folders of a fake machine; nothing of the real machine is visible."""

    path: Path
    """The one folder on PATH."""
    system_postgres: Path
    system_java: Path
    cache: Path

    def add_program(self, program: Path, prints: str, *, to: str = "stdout") -> Path:
        program.parent.mkdir(parents=True, exist_ok=True)
        program.write_text(f"#!/bin/sh\necho '{prints}' {'>&2' if to == 'stderr' else ''}\n")
        program.chmod(0o755)
        return program

    def add_postgres(self, folder: Path, version: str) -> Path:
        for program in POSTGRES_PROGRAMS:
            self.add_program(folder / program, f"{program} (PostgreSQL) {version}")
        return folder

    def add_java(self, home: Path, version: str) -> Path:
        self.add_program(home / "bin" / "java", f'openjdk version "{version}" 2025-01-01', to="stderr")
        return home

    def add_toxiproxy(self, program: Path, says: str, built_from: str = "") -> Path:
        self.add_program(program, f"toxiproxy-server version {says}")
        if built_from:
            with program.open("ab") as file:
                file.write(f"exit\n\0path\tgithub.com/Shopify/toxiproxy/v2/cmd/server\nmod\t{built_from}\th1:d1x=\n".encode())
        return program


def make_machine(folder: Path, monkeypatch: pytest.MonkeyPatch) -> FakeMachine:
    """Make an empty machine and let `stallbench.setup.components` see only that."""
    machine = FakeMachine(
        path=folder / "path", system_postgres=folder / "postgresql", system_java=folder / "jvm", cache=folder / "cache"
    )
    for folder_of_machine in (machine.path, machine.system_postgres, machine.system_java, machine.cache):
        folder_of_machine.mkdir()
    for program in ("sh", "echo"):
        (machine.path / program).symlink_to(f"/bin/{program}")
    monkeypatch.setenv("PATH", str(machine.path))
    for variable in ("JAVA_HOME", "STALLBENCH_POSTGRES_BIN"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setattr(components, "_SYSTEM_POSTGRES", machine.system_postgres)
    monkeypatch.setattr(components, "_SYSTEM_JAVA", machine.system_java)
    monkeypatch.setattr(components, "CACHE", machine.cache)
    assert os.environ["PATH"] == str(machine.path)
    return machine
