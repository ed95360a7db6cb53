"""`stallbench init` creates a scenario, a queue and a test that are valid as they are, and overwrites nothing."""

from __future__ import annotations

import ast
import shlex
from pathlib import Path

import pytest
from typer.testing import CliRunner

from stallbench.cli import app
from stallbench.errors import BadInputError
from stallbench.queues import find_queue
from stallbench.scenario.file import read_scenario
from stallbench.scenario.first_project import create_first_project
from stallbench.studies.conformance.worker_deaths import read_worker_deaths
from stallbench.studies.torture.plan import plan_torture, read_first_scenario


@pytest.mark.parametrize(
    ("folder", "named"),
    [(".", ""), ("tests/bench", "tests/bench/"), ("../other", "{parent}/other/"), ("tests/🐘é", "tests/🐘é/")],
)
def test_the_scenario_and_its_queue_are_valid_as_they_are(
    folder: str, named: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = tmp_path / "project"
    here.mkdir()
    monkeypatch.chdir(here)
    printed = CliRunner().invoke(app, ["init", folder])
    assert printed.exit_code == 0
    scenario = read_scenario(str(Path(folder, "scenario.toml")))
    assert scenario.queue.kind == f"{named.format(parent=tmp_path)}my_queue.py:MyQueue"
    assert find_queue(scenario.queue.kind).tables == ("my_jobs",)
    test = Path(folder, "test_my_queue.py").read_text()
    ast.parse(test)
    assert f'stallbench.run("{named.format(parent=tmp_path)}scenario.toml")' in test
    run = "./scenario.toml" if folder == "." else f"{named.format(parent=tmp_path)}scenario.toml"
    assert f"stallbench run {shlex.quote(run)} " in printed.output
    comment, _, _ = Path(folder, "scenario.toml").read_text().partition("\n")
    assert comment == f"# Run it from the folder in which you ran `stallbench init`: stallbench run {shlex.quote(run)}"


def test_the_queue_of_a_folder_with_any_name_can_be_tried(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    create_first_project(Path("🐘"))
    kind = "🐘/my_queue.py:MyQueue"
    plan = plan_torture(kind, seed=1, overrides=(), points=(), action=None)
    assert read_first_scenario(plan).queue.kind == read_worker_deaths(plan, tmp_path).queue.kind == kind


def test_a_light_installation_is_told_what_runs_need(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for has_bench in (True, False):
        monkeypatch.setattr("stallbench.commands.init.has_bench", lambda is_there=has_bench: is_there)
        printed = CliRunner().invoke(app, ["init", str(has_bench)]).output
        assert ("installs what runs need" in printed) is not has_bench


def test_the_commands_of_a_folder_whose_name_has_a_space_can_be_copied(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    printed = CliRunner().invoke(app, ["init", "my tests"]).output
    commands = {tuple(shlex.split(line)[:3]) for line in printed.splitlines() if line.startswith("  ")}
    assert ("stallbench", "run", "my tests/scenario.toml") in commands
    assert ("stallbench", "conform", "my tests/my_queue.py:MyQueue") in commands
    assert any(command[:2] == ("pytest", "my tests/test_my_queue.py") for command in commands)


def test_a_file_that_is_there_is_not_overwritten_and_no_other_is_written(tmp_path: Path) -> None:
    (tmp_path / "my_queue.sql").write_text("-- mine")
    with pytest.raises(BadInputError, match=r"my_queue\.sql: already there; nothing was written"):
        create_first_project(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["my_queue.sql"]
    assert (tmp_path / "my_queue.sql").read_text() == "-- mine"


@pytest.mark.parametrize("folder", ["notes.txt", "notes.txt/bench"])
def test_a_file_is_no_folder(folder: str, tmp_path: Path) -> None:
    (tmp_path / "notes.txt").touch()
    with pytest.raises(BadInputError, match=r"notes\.txt: is a file; expected a folder"):
        create_first_project(tmp_path / folder)


def test_a_link_to_nothing_is_no_folder(tmp_path: Path) -> None:
    (tmp_path / "bench").symlink_to(tmp_path / "moved")
    with pytest.raises(BadInputError, match=r"bench: is a link to a path that does not exist; expected a folder"):
        create_first_project(tmp_path / "bench")


def test_a_second_init_is_refused(tmp_path: Path) -> None:
    create_first_project(tmp_path)
    with pytest.raises(BadInputError, match="already there"):
        create_first_project(tmp_path)
