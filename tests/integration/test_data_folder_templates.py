"""A cache that was copied, given to somebody else, or restored by a CI service still gives data folders that PostgreSQL opens."""

from __future__ import annotations

import os
import stat
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest
from pydantic import SecretStr

from stallbench.engines.data_folder_templates import keep_as_template, unpack_template
from stallbench.engines.postgres import data_folder as postgres_data_folder
from stallbench.engines.postgres.data_folder import create_data_folder
from stallbench.engines.postgres.server import PostgresInstallation
from stallbench.setup.components import require_postgres
from stallbench.setup.server_programs import unprivileged_user

pytestmark = pytest.mark.integration

NOBODY = 65534
FROM_TEMPLATE, INITIALISED = ["postgres"], ["initdb"]
COPIED = "mv {cache} {cache}.original; cp -r {cache}.original {cache}"
RESTORED = "tar -C {cache} --owner=12345 --group=12345 -cf {cache}.tar .; rm -r {cache}/*; tar -C {cache} --no-same-owner -xf {cache}.tar"
OF_EARLIER_RELEASES = "for each in {cache}/initdb/*.tar; do rm $each; mkdir --mode=700 $each; touch $each/PG_VERSION; done"
ONLY_ROOT = pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file to another user")

CreateOne = Callable[[], list[str]]


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A cache with the template that the first start of a server leaves: each test gets a copy, for initdb takes seconds."""
    folder = tmp_path_factory.mktemp("filled") / "cache"
    installation = PostgresInstallation(programs=require_postgres(), user=unprivileged_user())
    with pytest.MonkeyPatch.context() as patch, tempfile.TemporaryDirectory() as scratch:
        patch.setattr(postgres_data_folder, "CACHE", folder)
        installation.own(Path(scratch), 0o711)
        create_data_folder(installation, Path(scratch) / "data", SecretStr("secret"))
    return folder


@pytest.fixture
def cache(filled: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the templates of this test are: one, which was made by the first start of a server."""
    folder = tmp_path / "cache"
    subprocess.run(["cp", "-a", filled, folder], check=True)
    monkeypatch.setattr(postgres_data_folder, "CACHE", folder)
    return folder


@pytest.fixture
def create_one(cache: Path, monkeypatch: pytest.MonkeyPatch) -> CreateOne:
    """Creates a data folder, which PostgreSQL then opens; returns the programs that created it."""
    run, programs = PostgresInstallation.run, []

    def run_and_note(installation: PostgresInstallation, program: str, *arguments: str, text: str = "") -> None:
        programs.append(program)
        run(installation, program, *arguments, text=text)

    monkeypatch.setattr(PostgresInstallation, "run", run_and_note)
    installation = PostgresInstallation(programs=require_postgres(), user=unprivileged_user())

    def create() -> list[str]:
        programs.clear()
        with tempfile.TemporaryDirectory() as scratch:
            installation.own(Path(scratch), 0o711)
            data = Path(scratch) / "data"
            create_data_folder(installation, data, SecretStr("secret"))
            created_by = list(programs)
            assert stat.S_IMODE(data.stat().st_mode) == 0o700
            run(installation, "postgres", "--single", "-D", str(data), "postgres", text="SELECT 1\n")
        return created_by

    return create


@pytest.mark.parametrize(
    ("what_happens", "then"),
    [
        pytest.param(COPIED, FROM_TEMPLATE, id="cp -r"),
        pytest.param("chmod -R go-rwx {cache}", FROM_TEMPLATE, id="chmod -R go-rwx"),
        pytest.param(RESTORED, FROM_TEMPLATE, id="a CI cache"),
        pytest.param(f"chown -R {NOBODY}:{NOBODY} {{cache}}", INITIALISED, id="chown -R", marks=ONLY_ROOT),
        pytest.param("chmod -R a+rwX {cache}", INITIALISED, id="chmod -R a+rwX"),
        pytest.param("truncate --size=20M {cache}/initdb/*.tar", INITIALISED, id="half is missing"),
        pytest.param(OF_EARLIER_RELEASES, INITIALISED, id="a folder"),
    ],
)
def test_a_changed_cache_is_used_or_made_anew(
    cache: Path, create_one: CreateOne, capfd: pytest.CaptureFixture[str], what_happens: str, then: list[str]
) -> None:
    subprocess.run(what_happens.format(cache=cache), shell=True, check=True)
    assert create_one() == then
    assert create_one() == FROM_TEMPLATE
    (template,) = (cache / "initdb").glob("*.tar")
    assert (template.stat().st_uid, stat.S_IMODE(template.stat().st_mode)) == (os.geteuid(), 0o600)
    assert capfd.readouterr().err == ""


@ONLY_ROOT
def test_a_link_to_a_template_of_somebody_else_is_not_followed(cache: Path, create_one: CreateOne) -> None:
    (template,) = (cache / "initdb").glob("*.tar")
    elsewhere = cache / "elsewhere"
    template.rename(elsewhere)
    os.chown(elsewhere, NOBODY, NOBODY)
    template.symlink_to(elsewhere)
    assert create_one() == INITIALISED
    assert elsewhere.stat().st_uid == NOBODY
    assert create_one() == FROM_TEMPLATE


@ONLY_ROOT
def test_who_cannot_replace_the_templates_is_told_once_what_to_do(capfd: pytest.CaptureFixture[str]) -> None:
    with tempfile.TemporaryDirectory() as scratch:
        Path(scratch).chmod(0o755)
        template, data = Path(scratch) / "cache" / "initdb" / "15-1.tar", Path(scratch) / "data"
        data.mkdir()
        (data / "PG_VERSION").write_text("15\n")
        keep_as_template(data, template)
        os.seteuid(NOBODY)
        try:
            assert not unpack_template(template, data / "copy")
            keep_as_template(data, template)
            keep_as_template(data, template)
        finally:
            os.seteuid(0)
        assert template.is_file()
    assert capfd.readouterr().err == (
        f"stallbench: {template.parent} belongs to another user, so each server's data folder is initialised anew, which takes a second; "
        f"remove the folder, as its owner or as root: rm -r {template.parent}\n"
    )
