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
from stallbench.scenario.file import read_scenario, read_variants
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


MEASURED = re.compile(r"(?<![\w`])\d[\d ,.]*\s?(?:ms|µs|s|min|jobs/s|%|CPU-s)(?![\w/])")
"""A figure with a unit."""
DEFINITIONS = {
    "README.md": set[str](),
    "docs/libraries.md": {"2 ms", "100 %"},
    "docs/libraries-in-faults.md": set[str](),
    "docs/libraries-in-reported-failures.md": set[str](),
    "docs/mitigations.md": {"5 s", "60 s", "65 s", "90 s"},
    "docs/mitigations-of-reported-failures.md": set[str](),
    "docs/results.md": set[str](),
    "docs/results/limit.md": {"95 %"},
    "docs/results/reports-backlogs-and-claims.md": {"3 s", "30 s"},
    "docs/results/torture.md": {"3 s", "5 s"},
}
"""Figures of the pages of results that were not measured: a definition, a setting or an example."""
RESULTS = [
    *DEFINITIONS,
    *(
        page
        for page in PAGES
        if page.startswith("docs/results/")
        and page not in {*DEFINITIONS, *("docs/results/mutants.md", "docs/results/observe.md")}
    ),
]
"""Without those that programs write as a whole."""


@pytest.mark.parametrize("page", RESULTS)
def test_a_page_of_results_has_measured_figures_only_in_generated_blocks(page: str) -> None:
    """Publish the run, and let a generated block show it."""
    written = re.sub(
        r"<!-- ([\w-]+): begin -->.*?<!-- \1: end -->|```.*?```|`[^`]*`", "", (ROOT / page).read_text(), flags=re.DOTALL
    )
    assert not {figure.strip() for figure in MEASURED.findall(written)} - DEFINITIONS.get(page, set())
