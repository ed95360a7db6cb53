"""How the pipeline starts, what it refuses before it does, and that a failed preparation fails nothing."""

from __future__ import annotations

from pathlib import Path

import pytest

from stallbench.pipeline import __main__ as command
from stallbench.pipeline import class_archive_preparation, run_size, session
from stallbench.pipeline.class_archive import archive_path, use_archive
from stallbench.pipeline.run_size import is_small
from stallbench.setup.components import JavaRuntime, MissingComponentError

JAVA = JavaRuntime(home=Path("/nowhere/java"), version="17.0.1")


def end_of(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> object:
    """Run the command and return the code that it ends with."""
    monkeypatch.setattr("sys.argv", ["pipeline", *arguments])
    with pytest.raises(SystemExit) as ended:
        command.main()
    return ended.value.code


@pytest.mark.parametrize("master", ["nonsense", "local[zwei]", "local[0]", "spark:/host", ""])
def test_a_master_that_is_none_is_refused_before_java_starts(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path, master: str
) -> None:
    assert end_of(monkeypatch, str(tmp_path), "--master", master) == 2
    expected = "expected local[*], local[4], spark://HOST:PORT, k8s://HOST:PORT or yarn"
    assert capsys.readouterr().err == f'master is "{master}"; {expected}\n'


def test_without_java_the_message_explains_how_to_install_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    def miss() -> JavaRuntime:
        raise MissingComponentError("a Java runtime was not found; install it by: make setup")

    monkeypatch.setattr(session, "require_java", miss)
    assert end_of(monkeypatch, str(tmp_path)) == 3
    assert capsys.readouterr().err == "a Java runtime was not found; install it by: make setup\n"


@pytest.mark.parametrize("arguments", [(), ("run", "--prepare"), ("one", "two")])
def test_there_is_one_thing_to_do_at_a_time(monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...]) -> None:
    assert end_of(monkeypatch, *arguments) == 2


def test_an_archive_that_cannot_be_kept_is_reported_and_fails_nothing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setattr(class_archive_preparation, "require_java", lambda: JAVA)
    monkeypatch.setattr(class_archive_preparation, "archive_path", lambda java: tmp_path / "file" / "classes.jsa")
    assert "classes.jsa: the archive of Java classes cannot be kept (File exists)" in class_archive_preparation.prepare()


def test_an_archive_that_is_there_is_not_built_again(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "classes.jsa").touch()
    monkeypatch.setattr(class_archive_preparation, "require_java", lambda: JAVA)
    monkeypatch.setattr(class_archive_preparation, "archive_path", lambda java: tmp_path / "classes.jsa")
    assert class_archive_preparation.prepare().endswith("is there")


def test_java_gets_an_archive_only_if_there_is_one() -> None:
    assert use_archive(JAVA) == []


def test_another_java_has_another_archive() -> None:
    other = JavaRuntime(home=JAVA.home, version="21.0.1")
    assert archive_path(JAVA) != archive_path(other)
    assert archive_path(JAVA).suffix == ".jsa"


def test_runs_are_small_by_their_bytes_and_never_on_other_file_systems(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(run_size, "_SMALL_RUN_BYTES", 10)
    (tmp_path / "events").mkdir()
    assert is_small(tmp_path)
    (tmp_path / "events" / "worker-1.csv").write_text("more than that\n")
    assert not is_small(tmp_path)
    assert not is_small("hdfs://host/run")
