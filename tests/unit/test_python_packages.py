"""Python packages are installed by uv as pip is configured to, by pip where uv cannot, and again when a lock changes."""

from __future__ import annotations

from pathlib import Path

import pytest

from stallbench.setup import packages, python_packages
from stallbench.setup.packages import InstallError
from stallbench.setup.uv_settings import settings_for_uv


@pytest.fixture
def ran(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[tuple[list[str], dict[str, str]]]:
    """The commands that would have installed packages, each with its environment."""
    commands: list[tuple[list[str], dict[str, str]]] = []

    def record(command: list[str], *, environment: dict[str, str] | None = None) -> None:
        commands.append((command, environment or {}))

    monkeypatch.setattr(python_packages, "run", record)
    monkeypatch.setattr(python_packages, "CACHE", tmp_path)
    monkeypatch.setattr(python_packages, "_STAMP", tmp_path / "locked")
    monkeypatch.setattr(python_packages, "install_wheel", lambda component: tmp_path / component)
    monkeypatch.setattr(python_packages, "output", lambda command: "")
    return commands


def test_the_environment_is_made_anew_when_a_lock_changes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, content in (("bin/python", ""), ("bin/stallbench", ""), ("development.lock", "a==1"), ("pyproject.toml", "")):
        file = tmp_path / name
        file.parent.mkdir(exist_ok=True)
        file.write_text(content)
        file.chmod(0o755)
    monkeypatch.setattr(python_packages, "ENVIRONMENT", tmp_path)
    monkeypatch.setattr(python_packages, "_PYTHON", tmp_path / "bin" / "python")
    monkeypatch.setattr(python_packages, "_STAMP", tmp_path / "locked")
    monkeypatch.setattr(python_packages, "_LOCK", tmp_path / "development.lock")
    monkeypatch.setattr(python_packages, "PROJECT", tmp_path)
    assert not python_packages.is_environment_complete(), "no stamp: an installation that did not end"
    (tmp_path / "locked").write_text(python_packages.fingerprint())
    assert python_packages.is_environment_complete()
    (tmp_path / "development.lock").write_text("a==2")
    assert not python_packages.is_environment_complete()
    (tmp_path / "development.lock").write_text("a==1")
    (tmp_path / "bin/python").unlink()
    assert not python_packages.is_environment_complete(), "the interpreter is gone"


def test_uv_installs_exactly_the_locked_files(ran: list[tuple[list[str], dict[str, str]]], tmp_path: Path) -> None:
    python_packages.install_packages()
    (locked, environment), (project, _) = ran
    assert locked[0] == str(tmp_path / "installer" / "bin" / "uv")
    assert {"--require-hashes", str(packages.LOCKS / "development.lock")} <= set(locked)
    assert locked[locked.index("--build-constraints") + 1] == str(packages.LOCKS / "development.lock"), (
        "also what builds a package is locked"
    )
    assert "--editable" in project
    assert environment["UV_CACHE_DIR"].startswith(str(tmp_path)), "what is left of the installation is in the project's folder"
    assert (tmp_path / "locked").read_text() == python_packages.fingerprint()


def test_without_uv_pip_installs_the_same_lock(
    ran: list[tuple[list[str], dict[str, str]]],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def refuse(component: str) -> Path:
        raise InstallError("no program for this machine")

    monkeypatch.setattr(python_packages, "install_wheel", refuse)
    python_packages.install_packages()
    assert "pip installs them, which takes longer, because uv did not: no program for this machine" in capsys.readouterr().out
    (locked, _), (project, _) = ran
    assert locked[1:5] == ["-P", "-m", "pip", "install"]
    assert {"--require-hashes", str(packages.LOCKS / "development.lock")} <= set(locked)
    assert project[1:5] == ["-P", "-m", "pip", "install"]
    assert (tmp_path / "locked").read_text() == python_packages.fingerprint()


def test_an_installation_that_failed_is_not_complete(
    ran: list[tuple[list[str], dict[str, str]]], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def fail(command: list[str], *, environment: dict[str, str] | None = None) -> None:
        raise InstallError("no network")

    (tmp_path / "locked").write_text(python_packages.fingerprint())
    monkeypatch.setattr(python_packages, "run", fail)
    with pytest.raises(InstallError, match="no network"):
        python_packages.install_packages()
    assert not (tmp_path / "locked").exists()


def test_uv_downloads_from_where_pip_is_configured_to() -> None:
    configuration = r"""
global.index-url='https://user:secret@packages.example/simple'
global.extra-index-url='https://one.example/simple\nhttps://two.example/simple'
global.cert='/etc/company.pem'
global.quiet='1'
download.index-url='https://unrelated.example/simple'
"""
    assert settings_for_uv(configuration) == {
        "UV_DEFAULT_INDEX": "https://user:secret@packages.example/simple",
        "UV_INDEX": "https://one.example/simple https://two.example/simple",
        "UV_INDEX_STRATEGY": "unsafe-best-match",
        "SSL_CERT_FILE": "/etc/company.pem",
    }


def test_the_environment_precedes_pips_files_and_its_section_install_precedes_global() -> None:
    lines = (
        ":env:.timeout='30'",
        "install.timeout='20'",
        "install.find-links='/a /b'",
        "global.timeout='10'",
        "global.find-links='/c'",
    )
    settings = settings_for_uv("\n".join(lines))
    assert (settings["UV_HTTP_TIMEOUT"], settings["UV_FIND_LINKS"]) == ("30", "/a,/b")


def test_what_the_user_sets_for_uv_precedes_pips_configuration(
    ran: list[tuple[list[str], dict[str, str]]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(python_packages, "output", lambda command: "global.index-url='https://pip.example/simple'")
    monkeypatch.setenv("UV_DEFAULT_INDEX", "https://uv.example/simple")
    python_packages.install_packages()
    assert ran[0][1]["UV_DEFAULT_INDEX"] == "https://uv.example/simple"


def test_when_pip_may_use_no_index_pip_installs(
    ran: list[tuple[list[str], dict[str, str]]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(python_packages, "output", lambda command: ":env:.no-index='1'")
    python_packages.install_packages()
    assert [command[1:5] for command, _ in ran] == [["-P", "-m", "pip", "install"]] * 2
