"""Which go builds an adapter: the machine's if it is recent enough, or else the locked one, which does not stay."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from stallbench.setup import go_toolchain


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(go_toolchain, "_SCRATCH", tmp_path / "scratch")  # deleted after a build; a set-up may be at work in it
    (tmp_path / "go.mod").write_text("module example\n\ngo 1.26.0\n")
    return tmp_path


@pytest.fixture
def builders(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The commands that have built, without a build."""
    found: list[str] = []

    @contextmanager
    def packaged_go() -> Iterator[str]:
        yield "packaged"

    monkeypatch.setattr(go_toolchain, "packaged_go", packaged_go)
    monkeypatch.setattr(go_toolchain, "run", lambda command, **_: found.append(command[0]))
    return found


def put_on_path(monkeypatch: pytest.MonkeyPatch, folder: Path, version: str) -> str:
    program = folder / "bin" / "go"
    program.parent.mkdir()
    program.write_text(f"#!/bin/sh\necho go version {version} linux/amd64\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}:/bin:/usr/bin")
    return str(program)


@pytest.mark.parametrize("version", ["go1.26.0", "go1.26.8", "go1.30", "go2.0.1"])
def test_the_machine_s_go_builds_if_it_is_recent_enough(
    monkeypatch: pytest.MonkeyPatch, module: Path, builders: list[str], version: str
) -> None:
    go = put_on_path(monkeypatch, module, version)
    go_toolchain.build_module(module, module / "program")
    assert builders == [go]


@pytest.mark.parametrize("version", ["go1.19.8", "go1.25.9", "devel"])
def test_the_locked_go_builds_where_the_machine_s_is_too_old(
    monkeypatch: pytest.MonkeyPatch, module: Path, builders: list[str], version: str
) -> None:
    put_on_path(monkeypatch, module, version)
    go_toolchain.build_module(module, module / "program")
    assert builders == ["packaged"]


def test_the_locked_go_builds_where_there_is_none(monkeypatch: pytest.MonkeyPatch, module: Path, builders: list[str]) -> None:
    monkeypatch.setenv("PATH", str(module))
    go_toolchain.build_module(module, module / "program")
    assert builders == ["packaged"]


def test_a_variant_is_built_from_its_own_lists_with_its_name_as_build_tag(monkeypatch: pytest.MonkeyPatch, module: Path) -> None:
    put_on_path(monkeypatch, module, "go1.26.0")
    built: list[list[str]] = []
    monkeypatch.setattr(go_toolchain, "run", lambda command, **_: built.append(command[2:]))
    go_toolchain.build_module(module, module / "out" / "adapter", variants=[module / "earlier-1.2.0.mod"])
    assert built == [
        ["-ldflags=-s -w", "-o", f"{module}/out/adapter", "."],
        ["-ldflags=-s -w", "-modfile=earlier-1.2.0.mod", "-tags=earlier_1.2.0", "-o", f"{module}/out/earlier-1.2.0", "."],
    ]
