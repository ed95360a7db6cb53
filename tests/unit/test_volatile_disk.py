"""A machine that cannot mount the file system of `database.volatile_cache` says so in one message, before a server starts."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from stallbench.engines import volatile_disk
from stallbench.engines.database import Database
from stallbench.errors import NotCarriedOutError
from stallbench.processes.supervisor import Supervisor
from stallbench.servers.cluster import start_cluster
from stallbench.setup import volatile_disk_program
from stallbench.setup.packages import InstallError


def start(folder: Path) -> None:
    processes = Supervisor("test")
    try:
        start_cluster(
            Database(volatile_cache=True),
            scratch=folder,
            logs=folder,
            processes=processes,
            progress=pytest.fail,
        )
    finally:
        assert processes.records() == []


def test_without_root_it_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    with pytest.raises(NotCarriedOutError, match="needs root; run the bench as root"):
        start(tmp_path)


def test_without_the_device_it_names_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(volatile_disk, "_DEVICE", tmp_path / "fuse")
    with pytest.raises(NotCarriedOutError, match=r"needs .*/fuse: No such file or directory; .* CAP_SYS_ADMIN"):
        start(tmp_path)


def test_a_program_that_cannot_be_built_is_reported_with_the_reason(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise InstallError("no go")

    monkeypatch.setattr(volatile_disk_program, "_FOLDER", tmp_path / "cache")
    monkeypatch.setattr(volatile_disk_program, "build_module", fail)
    with pytest.raises(NotCarriedOutError, match=r"could not be built \(no go\); build it by: make setup"):
        volatile_disk_program.require_volatile_disk_program()


def test_a_changed_source_is_built_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = tmp_path / "source"
    source.mkdir()
    (source / "main.go").write_text("package main")
    built: list[Path] = []

    def build(_: Path, program: Path) -> None:
        program.touch(mode=0o755)
        built.append(program)

    monkeypatch.setattr(volatile_disk_program, "_MODULE", source)
    monkeypatch.setattr(volatile_disk_program, "_FOLDER", tmp_path / "cache")
    monkeypatch.setattr(volatile_disk_program, "build_module", build)
    first = volatile_disk_program.require_volatile_disk_program()
    assert volatile_disk_program.require_volatile_disk_program() == first
    (source / "main.go").write_text("package main // changed")
    assert volatile_disk_program.require_volatile_disk_program() != first
    assert len(built) == 2
    assert not first.exists()
