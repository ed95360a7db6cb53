"""A library that needs a newer Python than the bench: which one is used, and what a user is told where there is none."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from stallbench import PROJECT
from stallbench.cli import app
from stallbench.errors import NotCarriedOutError
from stallbench.libraries import LIBRARIES, Library, LibraryError, find_library, installation
from stallbench.libraries.definition import read_library
from stallbench.libraries.installation import find_missing_requirement, installation_of, is_installed, require_installed
from stallbench.setup.python_interpreter import describe_search, find_python
from stallbench.studies.comparison.comparison import carry_out_runs
from stallbench.studies.comparison.plan import make_plan

pytestmark = pytest.mark.slow

THE_BENCHS_OWN = sys.version_info[:2]


class Machine:
    """A machine with only those Pythons that a test puts on it, beside the bench's own."""

    def __init__(self, path: Path, pyenv: Path) -> None:
        self.path, self.pyenv = path, pyenv

    def put_on_path(self, version: str, *, prints: str | None = None) -> Path:
        return _make_program(self.path / f"python{version}", f"echo {prints or version}")

    def put_into_pyenv(self, version: str) -> Path:
        return _make_program(self.pyenv / "versions" / version / "bin" / "python", f"echo {version.rpartition('.')[0]}")

    def put_shim_on_path(self, version: str) -> Path:
        """What pyenv has on the PATH for a version that is not chosen."""
        return _make_program(self.path / f"python{version}", "echo 'pyenv: command not found' >&2; exit 127")


def _make_program(path: Path, command: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{command}\n")
    path.chmod(0o755)
    return path


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    path, pyenv = tmp_path / "bin", tmp_path / "pyenv"
    monkeypatch.setenv("PATH", str(path))
    monkeypatch.setenv("PYENV_ROOT", str(pyenv))
    return Machine(path, pyenv)


@pytest.fixture
def newer(tmp_path: Path) -> Library:
    """A library that needs a Python that nobody has."""
    folder = tmp_path / "newer"
    shutil.copytree(LIBRARIES / "oban", folder)
    definition = folder / "library.toml"
    definition.write_text(definition.read_text().replace('python_at_least = "3.12"', 'python_at_least = "3.998"'))
    return read_library(definition)


def test_the_bench_s_own_python_is_used_if_it_is_new_enough(machine: Machine) -> None:
    machine.put_on_path("3.999")
    assert find_python(THE_BENCHS_OWN) == Path(sys.executable)


def test_the_oldest_that_is_new_enough_is_used_and_the_path_comes_before_pyenv(machine: Machine) -> None:
    newest, exact = machine.put_on_path("3.999"), machine.put_on_path("3.997")
    machine.put_on_path("3.100")
    machine.put_into_pyenv("3.997.1")
    of_pyenv = machine.put_into_pyenv("3.1000.1")
    assert find_python((3, 997)) == exact
    assert find_python((3, 998)) == newest
    assert find_python((3, 1000)) == of_pyenv
    assert find_python((3, 1001)) is None


def test_a_program_that_does_not_run_or_is_another_version_is_no_python(machine: Machine) -> None:
    machine.put_shim_on_path("3.997")
    machine.put_on_path("3.998", prints="3.6")
    (machine.path / "python3.999").symlink_to("gone")
    assert find_python((3, 997)) is None
    of_pyenv = machine.put_into_pyenv("3.997.1")
    assert find_python((3, 997)) == of_pyenv


def test_the_pythons_that_are_too_old_are_named(machine: Machine) -> None:
    machine.put_into_pyenv("3.8.18")
    own = ".".join(map(str, THE_BENCHS_OWN))
    assert (
        describe_search((3, 999))
        == f"found only 3.8, {own} (searched: the bench's own, python3.X on the PATH, and {machine.pyenv}/versions)"
    )


def test_where_there_is_none_one_message_says_what_is_missing_what_was_found_and_what_to_do(newer: Library) -> None:
    missing = find_missing_requirement(newer)
    assert missing is not None
    assert missing.startswith("Oban for Python 0.7.0 needs Python 3.998 or later; found only ")
    assert missing.endswith("put a python3.998 on the PATH, or run: pyenv install 3.998")
    assert "\n" not in missing
    with pytest.raises(LibraryError) as raised:
        require_installed(newer, lambda line: pytest.fail(f"nothing can be installed, but: {line}"))
    assert str(raised.value) == missing
    assert not installation_of(newer).exists()


@pytest.mark.parametrize(
    "command",
    [
        ("libraries", "setup", "{folder}"),
        ("run", "longtx", "--set", "queue.kind=library:{folder}"),
        ("compare", "longtx", "--libraries", "pgqueuer,{folder}"),
    ],
    ids=lambda command: command[0],
)
def test_a_command_that_needs_it_ends_with_that_message(newer: Library, tmp_path: Path, command: tuple[str, ...]) -> None:
    words = [word.format(folder=newer.folder) for word in command]
    runs = ["--runs", str(tmp_path / "runs")] if command[0] != "libraries" else []
    program = [sys.executable, "-c", "from stallbench.cli import main; main()"]
    environment = {**os.environ, "PYTHONPATH": str(PROJECT)}
    ended = subprocess.run([*program, *words, *runs], capture_output=True, text=True, check=False, env=environment)
    assert ended.returncode == 2, ended.stderr
    assert ended.stderr.count("needs Python 3.998 or later") == 1
    assert "Traceback" not in ended.stderr
    assert not (tmp_path / "runs").exists()


def test_the_list_of_libraries_says_so(newer: Library, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("stallbench.libraries.find_libraries", lambda: {"newer": newer})
    ended = CliRunner().invoke(app, ["libraries"])
    assert ended.exit_code == 0
    assert ended.output.count("needs Python 3.998 or later") == 1
    assert "not installed" in ended.output


def test_a_comparison_of_all_libraries_leaves_it_out_with_one_message(
    newer: Library, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    others = {name: find_library(name) for name in ("pgqueuer", "procrastinate")}
    monkeypatch.setattr("stallbench.studies.comparison.plan.find_libraries", lambda: {**others, str(newer.folder): newer})
    plan = make_plan("longtx", variants=None, libraries="all", rounds=1, seed=1, overrides=["producers.rate=1", "expect=[]"])
    assert list(plan.chosen) == ["library:pgqueuer", "library:procrastinate"]
    assert plan.left_out == {f"library:{newer.folder}": find_missing_requirement(newer)}
    said: list[str] = []
    (tmp_path / "file").touch()
    with pytest.raises(NotCarriedOutError, match="file"):  # where no comparison can be created, so that none is carried out
        carry_out_runs(plan, tmp_path / "file", said.append)
    assert said == [f"library:{newer.folder} is left out: {find_missing_requirement(newer)}"]


def test_a_library_whose_python_was_removed_is_not_installed_any_more(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(installation, "CACHE", tmp_path)
    library = find_library("procrastinate")
    python = installation_of(library) / "bin" / "python"
    python.parent.mkdir(parents=True)
    (installation_of(library) / "installed").write_text(str(installation_of(library)))
    python.symlink_to(sys.executable)
    assert is_installed(library)
    python.unlink()
    python.symlink_to(tmp_path / "gone")
    assert not is_installed(library)


def test_a_library_whose_folder_was_moved_is_installed_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its scripts and settings contain the path of the folder that it was installed into."""
    before, after = tmp_path / "clone", tmp_path / "moved"
    monkeypatch.setattr(installation, "CACHE", before)
    library = find_library("laravel")
    target = installation_of(library)
    target.mkdir(parents=True)
    (target / "installed").write_text(str(target))
    assert is_installed(library)
    before.rename(after)
    monkeypatch.setattr(installation, "CACHE", after)
    assert not is_installed(library)
