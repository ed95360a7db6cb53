"""The documentation names files, folders and pages that exist."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = sorted(
    path.relative_to(ROOT).as_posix()
    for path in (*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "reports" / "sample").glob("*.md"))
)


def anchors_of(page: Path) -> set[str]:
    """Return the anchors of a page's headings, as GitHub makes them."""
    headings = re.findall(r"^#+ (.*)$", page.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", PAGES)
def test_every_link_leads_to_a_file_or_heading(page: str) -> None:
    broken = []
    for link in re.findall(r"\]\(([^)\s]+)\)", (ROOT / page).read_text()):
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
