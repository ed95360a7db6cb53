"""A user's own application in place of a published library: found by its path, or told what is wrong with it."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

from stallbench import PROJECT
from stallbench.errors import BadInputError
from stallbench.libraries import LIBRARIES, LibraryError, find_library
from stallbench.libraries.definition import read_library
from stallbench.libraries.installation import command_of, environment_of, installation_of, is_installed, require_installed
from stallbench.run.recorder import describe_queue
from stallbench.scenario.file import ScenarioError, read_scenario
from stallbench.studies.comparison.plan import make_plan
from tests.libraries.made_up import APPLICATION, make_application


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    """The application in a folder of its own, with an environment."""
    return make_application(tmp_path)


def test_the_page_shows_the_files_that_are_tested() -> None:
    page = (PROJECT / "docs" / "test-my-application.md").read_text()
    shown = re.findall(r"```(?:python|toml)\n(.*?)```", page, re.DOTALL)
    assert shown == [(APPLICATION / name).read_text() for name in ("shop.py", "library.toml", "adapter.py")]


def test_what_a_user_writes_has_less_than_sixty_lines() -> None:
    written = [(APPLICATION / name).read_text().splitlines() for name in ("library.toml", "adapter.py")]
    assert sum(map(len, written)) < 60


def test_a_path_counts_from_the_working_directory(shop: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(shop.parent)
    record = describe_queue(read_scenario("longtx", overrides=["queue.kind=library:./shop", "producers.rate=1"]))
    assert record.kind == "library:./shop"
    assert record.source == f"{shop} (python)"
    assert record.library is not None
    assert (record.library.title, record.library.version) == ("Shop", "")


def test_it_runs_in_its_own_environment_and_can_import_the_contract_module(shop: Path) -> None:
    library = find_library(str(shop))
    require_installed(library, lambda line: pytest.fail(f"nothing is to be installed, but: {line}"))
    assert is_installed(library)
    assert command_of(library, "work") == [f"{shop}/.venv/bin/python", f"{shop}/adapter.py", "work"]
    contract = LIBRARIES / "contract" / "python"
    assert environment_of(library)["PYTHONPATH"] == environment_of(library)["STALLBENCH_CONTRACT"] == str(contract)


def test_an_application_named_like_a_library_does_not_replace_its_installation(tmp_path: Path) -> None:
    shutil.copytree(LIBRARIES / "pgmq", tmp_path / "pgmq")
    own, published = (installation_of(find_library(name)).name for name in (str(tmp_path / "pgmq"), "pgmq"))
    assert own.startswith("pgmq.")
    assert published.startswith("pgmq-")


def test_a_comparison_takes_paths_beside_names(shop: Path) -> None:
    plan = make_plan(
        "longtx", variants=None, libraries=f"pgmq,{shop}", rounds=1, seed=None, overrides=["producers.rate=1", "expect=[]"]
    )
    assert list(plan.chosen) == ["library:pgmq", f"library:{shop}"]


def test_a_path_that_is_not_there_is_named_as_a_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ScenarioError, match=rf'queue.kind is "library:./shp": there is no folder {tmp_path}/shp$'):
        read_scenario("longtx", overrides=["queue.kind=library:./shp"])


def test_a_folder_without_a_definition_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ScenarioError, match=rf"{tmp_path} has no library.toml; docs/test-my-application.md shows one"):
        read_scenario("longtx", overrides=[f"queue.kind=library:{tmp_path}"])


def test_an_invalid_definition_is_refused_with_its_path(shop: Path) -> None:
    definition = shop / "library.toml"
    definition.write_text(definition.read_text().replace('tables = ["mails"]', ""))
    with pytest.raises(ScenarioError, match=rf"{definition}: tables: Field required"):
        read_scenario("longtx", overrides=[f"queue.kind=library:{shop}"])


def test_each_issue_of_a_definition_is_a_line(shop: Path) -> None:
    definition = shop / "library.toml"
    definition.write_text('title = "Shop"\nlanguage = "python"\n')
    with pytest.raises(ScenarioError) as raised:
        read_scenario("longtx", overrides=[f"queue.kind=library:{shop}"])
    lines = str(raised.value).splitlines()
    missing = [re.fullmatch(rf".*queue\.kind is .*: {definition}: (\w+): Field required", line) for line in lines]
    assert {"tables", "command", "sql"} < {each[1] for each in missing if each}
    assert all(missing)


def test_a_definition_that_is_no_text_is_refused(shop: Path) -> None:
    (shop / "library.toml").write_bytes(b"\xff\xfe")
    with pytest.raises(LibraryError, match=r"library.toml: not TOML: 'utf-8' codec"):
        read_library(shop / "library.toml")


@pytest.mark.parametrize("command", [".venv/bin/pyhton", "no-such-program", "{python}"])
def test_a_command_that_is_not_there_is_refused(shop: Path, command: str) -> None:
    definition = shop / "library.toml"
    definition.write_text(definition.read_text().replace(".venv/bin/python", command))
    with pytest.raises(BadInputError, match=re.escape(f'library.toml: command is "{command}", but ')) as raised:
        require_installed(read_library(definition), print)
    assert "\n" not in str(raised.value)
