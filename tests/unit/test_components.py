"""The bench finds its components in their usual folders, accepts only versions that it can use, and says how to install what is missing."""

from __future__ import annotations

import os
from pathlib import Path
from types import SimpleNamespace

import pytest

from stallbench import PROJECT
from stallbench.setup import components
from stallbench.setup.components import (
    MissingComponentError,
    find_cache,
    find_java,
    find_postgres,
    find_toxiproxy,
    require_java,
    require_postgres,
    require_toxiproxy,
)
from tests.unit.fake_machine import FakeMachine, make_machine

MODULE = "github.com/Shopify/toxiproxy/v2"


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeMachine:
    return make_machine(tmp_path, monkeypatch)


def test_the_newest_postgresql_is_taken(machine: FakeMachine) -> None:
    for version in ("9.6", "15.4", "17.2", "16.9"):
        machine.add_postgres(machine.system_postgres / version.split(".")[0] / "bin", version)
    found = require_postgres()
    assert (found.version, found.major, found.bin_dir) == ("17.2", 17, machine.system_postgres / "17" / "bin")


def test_versions_are_compared_as_numbers(machine: FakeMachine) -> None:
    machine.add_postgres(machine.system_postgres / "a" / "bin", "15.9")
    machine.add_postgres(machine.system_postgres / "b" / "bin", "15.18")
    assert require_postgres().version == "15.18"


def test_a_postgresql_of_a_major_version_can_be_selected(machine: FakeMachine) -> None:
    for version in ("15.4", "17.2"):
        machine.add_postgres(machine.system_postgres / version / "bin", version)
    assert require_postgres(15).version == "15.4"
    with pytest.raises(MissingComponentError, match="PostgreSQL 16 was not found"):
        require_postgres(16)


def test_postgresql_on_path_and_in_the_cache_is_found(machine: FakeMachine) -> None:
    machine.add_postgres(machine.cache / "postgres" / "some_package" / "bin", "18.6")
    assert require_postgres().version == "18.6"
    machine.add_postgres(machine.path, "19.1")
    assert require_postgres().bin_dir == machine.path


def test_a_postgresql_that_is_too_old_or_incomplete_is_not_found(machine: FakeMachine) -> None:
    machine.add_postgres(machine.system_postgres / "13" / "bin", "13.20")
    machine.add_postgres(machine.system_postgres / "17" / "bin", "17.2")
    (machine.system_postgres / "17" / "bin" / "initdb").unlink()
    assert find_postgres() is None
    with pytest.raises(MissingComponentError, match=r"PostgreSQL 14 or later was not found.*apt-get install postgresql-15"):
        require_postgres()


def test_the_folder_that_the_user_names_is_the_only_one(machine: FakeMachine, monkeypatch: pytest.MonkeyPatch) -> None:
    machine.add_postgres(machine.system_postgres / "17" / "bin", "17.2")
    own = machine.add_postgres(machine.cache / "own", "15.1")
    monkeypatch.setenv("STALLBENCH_POSTGRES_BIN", str(own))
    assert require_postgres().bin_dir == own
    monkeypatch.setenv("STALLBENCH_POSTGRES_BIN", "/nowhere")
    with pytest.raises(MissingComponentError, match="STALLBENCH_POSTGRES_BIN is '/nowhere'; expected a folder with the programs"):
        require_postgres()


def test_a_program_that_only_some_tasks_need_is_required_where_it_is_used(machine: FakeMachine) -> None:
    folder = machine.add_postgres(machine.system_postgres / "14" / "bin", "14.20")
    found = require_postgres()
    with pytest.raises(
        MissingComponentError, match=r"the benchmark needs pgbench, which is not in .*/14/bin \(PostgreSQL 14.20\); set STALL"
    ):
        found.require("pgbench", "the benchmark")
    machine.add_program(folder / "pgbench", "pgbench (PostgreSQL) 14.20")
    assert found.require("pgbench", "the benchmark") == folder / "pgbench"


def test_java_home_has_precedence_over_path_and_system(machine: FakeMachine, monkeypatch: pytest.MonkeyPatch) -> None:
    system = machine.add_java(machine.system_java / "java-17", "17.0.15")
    assert require_java().home == system
    on_path = machine.add_java(machine.path.parent / "on-path", "21.0.1")
    (machine.path / "java").symlink_to(on_path / "bin" / "java")
    assert require_java().home == on_path
    own = machine.add_java(machine.path.parent / "own", "25")
    monkeypatch.setenv("JAVA_HOME", str(own))
    assert (require_java().home, require_java().version) == (own, "25")


def test_a_java_that_is_too_old_is_passed_over(machine: FakeMachine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", str(machine.add_java(machine.path.parent / "old", "11.0.2")))
    machine.add_java(machine.system_java / "java-8", "1.8.0_402")
    assert find_java() is None
    with pytest.raises(MissingComponentError, match=r"version 17 or later, was not found.*openjdk-17-jre-headless"):
        require_java()
    packaged = machine.add_java(machine.cache / "java" / "some_package" / "java-runtime", "17.0.9")
    assert require_java().home == packaged


def test_a_toxiproxy_release_on_path_is_taken(machine: FakeMachine) -> None:
    program = machine.add_toxiproxy(machine.path / "toxiproxy-server", "2.12.0")
    machine.add_toxiproxy(machine.cache / "bin" / "toxiproxy-server", "2.12.0")
    assert require_toxiproxy().path == program


@pytest.mark.parametrize("says", ["2.11.0", "2.12.01", "12.12.0", "git"])
def test_another_toxiproxy_on_path_is_passed_over_for_the_cached_one(machine: FakeMachine, says: str) -> None:
    machine.add_toxiproxy(machine.path / "toxiproxy-server", says)
    cached = machine.add_toxiproxy(machine.cache / "bin" / "toxiproxy-server", "2.12.0")
    assert require_toxiproxy().path == cached


def test_a_toxiproxy_built_by_go_is_recognised_by_its_build_facts(machine: FakeMachine) -> None:
    program = machine.add_toxiproxy(machine.cache / "bin" / "toxiproxy-server", "git", built_from=f"{MODULE}\tv2.12.0")
    assert (require_toxiproxy().path, require_toxiproxy().version) == (program, "2.12.0")


@pytest.mark.parametrize("version", ["v2.11.0", "v2.12.0-rc1"])
def test_a_cached_toxiproxy_of_another_version_is_none(machine: FakeMachine, version: str) -> None:
    machine.add_toxiproxy(machine.cache / "bin" / "toxiproxy-server", "git", built_from=f"{MODULE}\t{version}")
    assert find_toxiproxy() is None
    with pytest.raises(MissingComponentError, match=r"Toxiproxy 2\.12\.0 was not found; install it by: make setup"):
        require_toxiproxy()


def test_what_is_missing_ends_a_command_with_code_3() -> None:
    assert MissingComponentError.exit_code == 3


def test_a_clone_keeps_components_in_its_own_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", "/somewhere")
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert find_cache(is_wheel=False) == PROJECT / ".cache"


@pytest.mark.parametrize(("mode", "is_in_clone"), [(0o755, True), (0o700, False)])
def test_root_s_clone_keeps_them_where_the_servers_user_can_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mode: int, is_in_clone: bool
) -> None:
    """Root's servers run as another user, who cannot enter root's home."""
    clone = tmp_path / "home" / "clone"
    clone.mkdir(parents=True)
    clone.parent.chmod(mode)
    others = dict.fromkeys((tmp_path, *tmp_path.parents), 493)  # pytest's own folders are not open to all
    real = Path.stat
    monkeypatch.setattr(Path, "stat", lambda path: SimpleNamespace(st_mode=others[path]) if path in others else real(path))
    monkeypatch.setattr(components, "PROJECT", clone)
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    assert find_cache(is_wheel=False) == (clone / ".cache" if is_in_clone else Path("/var/cache/stallbench"))


def test_an_installed_bench_keeps_them_in_the_user_s_cache_and_root_s_where_other_users_can_read(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("HOME", "/home/me")
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert find_cache(is_wheel=True) == Path("/home/me/.cache/stallbench")
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    assert find_cache(is_wheel=True) == Path("/var/cache/stallbench")
    monkeypatch.setenv("XDG_CACHE_HOME", "/somewhere")
    assert find_cache(is_wheel=True) == Path("/somewhere/stallbench")
