"""The doctor checks everything, says what to do about each problem, and never calls a broken machine complete."""

from __future__ import annotations

import resource
import shutil
from pathlib import Path
from types import SimpleNamespace

import pytest

from stallbench.setup import doctor
from stallbench.setup.components import PostgresPrograms
from stallbench.setup.doctor import MachineCheck, check, render
from tests.unit.fake_machine import make_machine

pytestmark = pytest.mark.slow


def the(name: str) -> MachineCheck:
    return next(machine_check for machine_check in check() if machine_check.name == name)


def test_every_missing_component_is_named_with_its_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make_machine(tmp_path, monkeypatch)
    missing = {machine_check.name: machine_check.description for machine_check in check() if not machine_check.ok}
    assert {"PostgreSQL", "Java", "Toxiproxy"} <= missing.keys()
    assert "apt-get install postgresql-15" in missing["PostgreSQL"]
    assert "apt-get install openjdk-17-jre-headless" in missing["Java"]
    assert "make setup" in missing["Toxiproxy"]


def test_what_was_found_is_described_with_version_and_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    machine = make_machine(tmp_path, monkeypatch)
    folder = machine.add_postgres(machine.system_postgres / "17" / "bin", "17.2")
    assert the("PostgreSQL") == MachineCheck(name="PostgreSQL", ok=True, description=f"17.2 in {folder}")


def test_packages_other_than_the_locked_ones_are_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "is_environment_complete", lambda: False)
    packages = the("packages")
    assert not packages.ok
    assert "make setup" in packages.description


def test_a_postgresql_that_the_servers_user_cannot_run_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "unprivileged_user", lambda: "nobody")
    monkeypatch.setattr(doctor, "find_postgres", lambda: PostgresPrograms(bin_dir=tmp_path / "gone", version="17.2"))
    user = the("user")
    assert not user.ok
    assert "nobody, which cannot run PostgreSQL" in user.description


@pytest.mark.parametrize("name", ["disk", "shared memory"])
def test_too_little_space_is_reported_with_what_is_needed(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(free=5 * 1024**2))
    space = the(name)
    assert not space.ok
    assert space.description.startswith("only 5 MiB free in ")
    assert space.description.endswith("are needed")


def test_a_limit_that_is_too_low_is_reported_with_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda kind: (64 if kind == resource.RLIMIT_NOFILE else -1, -1))
    assert the("limits") == MachineCheck(
        name="limits",
        ok=False,
        description="only 64 open files, any number of processes; raise the limits to 1024 and 512 by: ulimit -n 1024 -u 512",
    )


def test_the_last_line_sums_up() -> None:
    fine, broken = (
        MachineCheck(name="Java", ok=True, description="17"),
        MachineCheck(name="disk", ok=False, description="only 1 MiB"),
    )
    assert render([fine]).splitlines()[-1] == "nothing is missing"
    assert render([fine, broken]).splitlines()[-1].startswith("1 missing; `make setup`")
    assert "MISSING  disk" in render([fine, broken])
