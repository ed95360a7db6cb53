"""The documentation names files, folders and pages that exist."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import typer

from stallbench.cli import app
from stallbench.injection.faults import find_faults
from stallbench.scenario.file import find_scenarios, read_scenario, read_variants
from stallbench.scenario.model import CONTROL

ROOT = Path(__file__).parents[2]
PAGES = sorted(
    path.relative_to(ROOT).as_posix()
    for path in (*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "reports" / "sample").glob("*.md"))
)

FOLDERS = "stallbench|tests|scenarios|producers|workers|schedulers|longrunners|dashboards|benchmarks|tools|docs"


def without_diffs(text: str) -> str:
    """Return a page without the diffs that show how to add a file."""
    return re.sub(r"```diff.*?```", "", text, flags=re.DOTALL)


def anchors_of(page: Path) -> set[str]:
    """Return the anchors of a page's headings, as GitHub makes them."""
    headings = re.findall(r"^#+ (.*)$", page.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", PAGES)
def test_every_link_leads_to_a_file_or_heading(page: str) -> None:
    broken = []
    for link in re.findall(r"\]\(([^)\s]+)\)", without_diffs((ROOT / page).read_text())):
        name, _, anchor = link.partition("#")
        if "://" in name:
            continue
        target = (ROOT / page).parent / name if name else ROOT / page
        if not target.exists() or (anchor and anchor not in anchors_of(target)):
            broken.append(link)
    assert not broken


def test_the_map_lists_every_folder_of_the_package() -> None:
    listed = re.findall(r"`([^`\s]+)/`", (ROOT / "docs" / "what-is-where.md").read_text())
    folders = {path.parent.name for path in (ROOT / "stallbench").glob("*/__init__.py")}
    assert not folders - set(listed)


def test_the_map_names_paths_that_exist() -> None:
    missing = []
    for line in (ROOT / "docs" / "what-is-where.md").read_text().splitlines():
        names = [name for name in re.findall(r"`([^`\s]+)`", line) if re.search(r"/|\w\.(py|md|toml|yml)$", name)]
        folders = [ROOT / start for start in ("", "stallbench")]
        for name in names:
            found = [folder / name for folder in folders if (folder / name).exists()]
            missing += [] if found else [name]
            folders += [path if path.is_dir() else path.parent for path in found]
    assert not missing


def test_the_page_of_faults_lists_every_kind() -> None:
    table, _, _ = (ROOT / "docs" / "faults.md").read_text().partition("\n## Combined faults\n")
    assert set(re.findall(r"^\| `(\w+)` \|", table, re.MULTILINE)) == set(find_faults())


@pytest.mark.parametrize("kind", find_faults())
def test_the_page_of_faults_says_of_a_fault_that_acts_on_the_primary_only_that_it_does(kind: str) -> None:
    (acts_on,) = re.findall(rf"^\| `{kind}` \| ([^|]+) \|", (ROOT / "docs" / "faults.md").read_text(), re.MULTILINE)[:1]
    assert acts_on.startswith("the primary") == (find_faults()[kind].targets == ("primary",))


def test_every_scenario_has_a_section_with_a_table_in_the_results() -> None:
    pages = [ROOT / "docs" / "results.md", *(ROOT / "docs" / "results").glob("*.md")]
    sections = [section for page in pages for section in re.split(r"^## ", page.read_text(), flags=re.MULTILINE)[1:]]
    with_table = {section.split(":")[0].split("\n")[0] for section in sections if re.search(r"^\|---", section, re.MULTILINE)}
    assert not set(find_scenarios()) - with_table


def test_a_full_length_run_was_judged_by_the_expectations_of_its_scenario() -> None:
    """A row of a scenario that has other expectations today has the mark †, until the scenario was run again."""
    text = (ROOT / "docs" / "results" / "full-length.md").read_text()
    rows = re.findall(r"^\| `([\w-]+)`( †)? \| (.*)$", text, re.MULTILINE)
    assert {name for name, _, _ in rows} == set(find_scenarios())
    for name, mark, row in rows:
        judged_by = sorted(re.findall(r"`([\w.]+)` in ([^:]+): ", row))
        today = sorted((each.metric, each.phase or "the whole run") for each in read_scenario(name).expect)
        assert (judged_by != today) == bool(mark), name


@pytest.mark.parametrize("page", PAGES)
def test_every_command_names_a_scenario_and_variants_that_exist(page: str) -> None:
    unknown = []
    text = (ROOT / page).read_text()
    for scenario, options in re.findall(r"stallbench (?:run|compare|soak|show|limit|matrix) ([a-z][a-z-]*)([^`\n|]*)", text):
        path = ROOT / "scenarios" / f"{scenario}.toml"
        named = ",".join(re.findall(r"--variants? ([\w,-]+)", options)).split(",")
        known = {"", CONTROL, *read_variants(path)} if path.exists() else set()
        unknown += [f"{scenario} {variant}" for variant in named if variant not in known]
    assert not unknown


@cache
def list_commands() -> dict[str, Any]:
    commands: dict[str, Any] = typer.main.get_command(app).commands  # type: ignore[attr-defined]  # a group has them
    return commands


@pytest.mark.parametrize("page", PAGES)
def test_every_command_and_option_that_a_page_names_exists(page: str) -> None:
    commands = list_commands()
    unknown = []
    for name, words in re.findall(
        r"stallbench (\w+)((?: (?:--?[\w-]+|'[^']*'|\"[^\"]*\"|[^\s`#|]+))*)", (ROOT / page).read_text()
    ):
        if name not in commands or hasattr(commands[name], "commands"):
            continue
        known = {option for parameter in commands[name].params for option in (*parameter.opts, *parameter.secondary_opts)}
        unknown += [f"{name} {option}" for option in re.findall(r"(?<= )--[\w-]+", words) if option not in known]
    assert not unknown


@pytest.mark.parametrize("page", PAGES)
def test_every_path_that_a_page_names_exists(page: str) -> None:
    named = re.findall(rf"(?<![\w/])(?:{FOLDERS})/[\w/-]+\.(?:py|sql|toml|md)\b", without_diffs((ROOT / page).read_text()))
    assert not [path for path in named if not (ROOT / path).exists()]


@pytest.mark.parametrize("page", PAGES)
def test_the_scenario_of_every_matrix_is_valid_on_each_of_its_engines(page: str) -> None:
    commands = re.findall(r"stallbench matrix ([a-z][a-z-]*)([^`\n|]*)", (ROOT / page).read_text())
    for scenario, options in commands:
        named = re.search(r"--variant (\w+)", options)
        changes = re.findall(r"--set (\S+)", options)
        for engine in re.findall(r"(postgres|mariadb|mysql):", options):
            read_scenario(scenario, variant=named[1] if named else None, overrides=[*changes, f"database.engine={engine}"])
