"""A server that only some scenarios need is unpacked when the first of them asks for it; if that fails, the message says why."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from stallbench.engines.database import Database
from stallbench.engines.innodb import starter as innodb_starter
from stallbench.engines.mysql.starter import MySQLStarter
from stallbench.setup import packages, server_programs, steps
from stallbench.setup.components import MissingComponentError
from stallbench.setup.packages import InstallError
from stallbench.setup.server_programs import SERVER_COMPONENTS, ServerProgram, find_server, find_servers, require_server
from tests.unit.fake_machine import FakeMachine, make_machine


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeMachine:
    machine = make_machine(tmp_path, monkeypatch)
    for module in (packages, server_programs, steps):
        monkeypatch.setattr(module, "CACHE", machine.cache)
    for component in SERVER_COMPONENTS.values():
        monkeypatch.delenv(component.override, raising=False)
    # The real machine's own servers are not on this one.
    monkeypatch.setattr(server_programs, "_SYSTEM_FOLDERS", ())
    return machine


def test_a_missing_server_is_unpacked_when_it_is_first_required(
    machine: FakeMachine, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    unpacked: list[str] = []

    def unpack(key: str, package: str) -> None:
        unpacked.append(package)
        machine.add_program(machine.cache / key / "usr" / "sbin" / "pgbouncer", "PgBouncer 1.18.0")

    monkeypatch.setattr(server_programs, "unpack_debian", unpack)
    assert require_server("pgbouncer").version == "1.18.0"
    assert require_server("pgbouncer").path == machine.cache / "pgbouncer" / "usr" / "sbin" / "pgbouncer"
    assert unpacked == ["pgbouncer"], "the second time it is there"
    captured = capsys.readouterr()
    assert captured.err.splitlines() == ["set-up: pgbouncer ...", "set-up: pgbouncer: installed in 0 s"]
    assert captured.out == "", "a command's own output is not mixed with it"


def test_a_server_that_cannot_be_unpacked_is_missing_with_the_reason_and_the_command(
    machine: FakeMachine, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(key: str, package: str) -> None:
        raise InstallError("no network")

    monkeypatch.setattr(server_programs, "unpack_debian", refuse)
    expected = r"MariaDB was not found and could not be installed \(no network\); install it by `make setup`, or by: apt-get install mariadb"
    with pytest.raises(MissingComponentError, match=expected):
        require_server("mariadb")


def test_without_apt_the_message_says_so(machine: FakeMachine) -> None:
    assert shutil.which("apt-get") is None
    with pytest.raises(MissingComponentError, match=r"could not be installed \(this system is not Debian: it has no apt-get\)"):
        require_server("redis")


def test_a_cache_that_cannot_be_written_is_a_reason_too(
    machine: FakeMachine, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setattr(steps, "CACHE", tmp_path / "file" / "cache")
    with pytest.raises(MissingComponentError, match=r"could not be installed .*Not a directory"):
        require_server("beanstalkd")


def test_what_debian_has_no_package_for_is_never_installed(machine: FakeMachine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server_programs, "unpack_debian", lambda key, package: pytest.fail("there is no package"))
    with pytest.raises(MissingComponentError, match="MySQL was not found; Debian has no package: set STALLBENCH_MYSQL_BIN"):
        require_server("mysql")


def test_a_folder_that_the_user_names_is_the_only_one(machine: FakeMachine, monkeypatch: pytest.MonkeyPatch) -> None:
    machine.add_program(machine.path / "redis-server", "Redis server v=7.0.15 sha=0")
    assert require_server("redis").path == machine.path / "redis-server"
    monkeypatch.setattr(server_programs, "unpack_debian", lambda key, package: pytest.fail("the user chose another"))
    monkeypatch.setenv("STALLBENCH_REDIS_BIN", "/nowhere")
    expected = "STALLBENCH_REDIS_BIN is '/nowhere'; expected a folder with redis-server of Redis 6 or later"
    with pytest.raises(MissingComponentError, match=expected):
        require_server("redis")


def test_a_server_that_is_too_old_is_passed_over(machine: FakeMachine) -> None:
    machine.add_program(machine.path / "mariadbd", "mariadbd  Ver 10.5.26-MariaDB for debian-linux-gnu")
    assert find_server("mariadb") is None
    found = machine.add_program(
        machine.cache / "mariadb" / "usr" / "sbin" / "mariadbd", "mariadbd  Ver 10.11.14-MariaDB for Linux"
    )
    assert find_server("mariadb") is not None
    assert require_server("mariadb").path == found


def test_several_folders_can_have_a_version_each(machine: FakeMachine, monkeypatch: pytest.MonkeyPatch) -> None:
    folders = [machine.cache / name for name in ("older", "newer", "newer-again")]
    for folder, version in zip(folders, ("10.11.14", "11.4.5", "11.4.5"), strict=True):
        machine.add_program(folder / "mariadbd", f"mariadbd  Ver {version}-MariaDB for Linux")
    monkeypatch.setenv("STALLBENCH_MARIADB_BIN", os.pathsep.join(map(str, folders)))
    assert [program.version for program in find_servers("mariadb")] == ["10.11.14", "11.4.5"]
    newer = find_server("mariadb", "11.4")
    assert newer is not None
    assert newer.path.parent == folders[1]
    assert find_server("mariadb", "11") == newer
    assert find_server("mariadb", "1") is None, "a part of a number is no version"


def test_the_unpacked_program_can_be_one_of_the_folders_and_keeps_its_libraries(
    machine: FakeMachine, monkeypatch: pytest.MonkeyPatch
) -> None:
    unpacked = machine.cache / "mariadb" / "usr"
    libraries = unpacked / "lib" / "x86_64-linux-gnu"
    libraries.mkdir(parents=True)
    machine.add_program(unpacked / "sbin" / "mariadbd", "mariadbd  Ver 10.11.14-MariaDB for Linux")
    monkeypatch.setenv("STALLBENCH_MARIADB_BIN", str(unpacked / "sbin"))
    assert require_server("mariadb").libraries == (libraries,)


def test_a_program_that_does_what_it_is_called_is_called_by_its_name(machine: FakeMachine) -> None:
    """Debian's redis-server is a link to redis-check-rdb, which is the server if that is not its name."""
    program = machine.path / "redis-check-rdb"
    program.write_text('#!/bin/sh\ncase $0 in *redis-server) echo "Redis server v=7.0.15 sha=0" ;; *) echo "a check" ;; esac\n')
    program.chmod(0o755)
    (machine.path / "redis-server").symlink_to("redis-check-rdb")
    assert require_server("redis").path == machine.path / "redis-server"


def test_a_version_of_mysql_that_is_not_there_is_not_sought_in_containers(monkeypatch: pytest.MonkeyPatch) -> None:
    found = ServerProgram(path=Path("/nowhere"), version="8.0.15")
    monkeypatch.setattr(innodb_starter, "require_server", lambda engine: found)
    monkeypatch.setattr(innodb_starter, "find_servers", lambda engine: [found])
    monkeypatch.setattr(innodb_starter, "find_server", lambda engine, version: None)
    assert MySQLStarter.find_obstacle(Database(engine="mysql", version="9")) == (
        "MySQL 9 is not available here; available: 8.0.15; add the folder of another version to STALLBENCH_MYSQL_BIN; "
        "docs/versions.md says how to use others"
    )
