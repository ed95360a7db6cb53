"""The tables of docs/libraries.md are written from the runs on disk, and nothing else."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import pytest

from stallbench.comparison.library_tables import PAGE, README, write_tables
from stallbench.errors import BadInputError
from stallbench.libraries import find_libraries

SAMPLE = Path(__file__).resolve().parents[2] / "reports" / "sample"
MARKERS = "\n".join(f"<!-- {table}: begin -->\n<!-- {table}: end -->" for table in ("longtx", "faults", "rescue", "settings"))
README_MARKERS = "<!-- libraries: begin -->\n<!-- libraries: end -->"


@pytest.fixture
def page(tmp_path: Path) -> Path:
    path = tmp_path / "libraries.md"
    path.write_text(MARKERS)
    (tmp_path / "README.md").write_text(README_MARKERS)
    return path


def make_run(runs: Path, run_id: str, library: str, scenario: str = "worker-crash", snapshot: str = "") -> None:
    """Make a run of a library out of the sample run."""
    folder = runs / run_id
    shutil.copytree(SAMPLE, folder)
    record = json.loads((folder / "run.json").read_text())
    record["id"] = run_id
    record["scenario"]["name"] = scenario
    record["queue"]["kind"] = f"library:{library}"
    (folder / "run.json").write_text(json.dumps(record))
    (folder / "final_snapshot.csv").write_text(f"job_id,state\n{snapshot}")


def write(runs: Path, page: Path) -> None:
    write_tables(runs, page, page.with_name("README.md"))


def read_row(page: Path, title: str) -> str:
    return next(
        line for line in page.read_text().splitlines() if line.startswith(f"| {title}") and re.search("lost|stranded", line)
    )


def test_a_cell_is_of_the_newest_run_and_refers_to_it(tmp_path: Path, page: Path) -> None:
    make_run(tmp_path, "20260101T000000Z-worker-crash", "procrastinate", snapshot="7,claimed\n")
    make_run(tmp_path, "20260102T000000Z-worker-crash", "procrastinate", snapshot="8,claimed\n9,claimed\n10,ready\n")
    write(tmp_path, page)
    row = read_row(page, "Procrastinate")
    assert "2 stranded" in row
    assert row.endswith("(1) |  |  |  |  |  |  |"), "the cells of the other scenarios are empty"
    assert "1. `20260102T000000Z-worker-crash`" in page.read_text()
    assert "20260101" not in page.read_text()


@pytest.mark.parametrize("intended", ["running", "stopped"], ids=["during the load", "noticed when the load had ended"])
def test_a_run_that_ended_because_every_worker_had_exited_says_so(tmp_path: Path, page: Path, intended: str) -> None:
    make_run(tmp_path, "20260101T000000Z-server-crash", "delayed_job", "server-crash")
    path = tmp_path / "20260101T000000Z-server-crash" / "run.json"
    record = json.loads(path.read_text())
    for process in record["processes"]:
        if process["role"] == "worker":
            process |= {"intended": intended, "exit_code": 1}
    path.write_text(json.dumps(record | {"status": "failed"}))
    shutil.rmtree(path.parent / "tables")
    write(tmp_path, page)
    assert "|  |  | every worker exited (1) |  |" in page.read_text()


def test_a_cell_without_a_run_on_this_disk_keeps_what_the_page_says(tmp_path: Path, page: Path) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    make_run(first, "20260101T000000Z-worker-crash", "procrastinate")
    write(first, page)
    before = read_row(page, "Procrastinate")
    make_run(second, "20260102T000000Z-server-crash", "river", "server-crash")
    write(second, page)
    assert read_row(page, "Procrastinate") == before
    assert read_row(page, "River").endswith("(2) |  |  |  |  |")
    assert "2. `20260102T000000Z-server-crash`" in page.read_text()


def test_every_library_says_when_the_job_of_a_dead_worker_runs_again(tmp_path: Path, page: Path) -> None:
    make_run(tmp_path, "20260101T000000Z-worker-crash", "procrastinate")
    write(tmp_path, page)
    for library in find_libraries().values():
        assert f"| {library.title} {library.version} |" in page.read_text()
    assert "| never | nothing by default" in page.read_text()
    assert "| never; failed after 1.5m | another worker, when the reservation has expired" in page.read_text(), (
        "Laravel, one attempt"
    )


def test_without_a_run_of_a_library_nothing_is_written(tmp_path: Path, page: Path) -> None:
    with pytest.raises(BadInputError, match="has no run of a library; try: stallbench compare longtx --libraries all"):
        write(tmp_path, page)
    assert page.read_text() == MARKERS


def test_the_page_in_the_docs_has_all_markers() -> None:
    assert all(marker in PAGE.read_text() for marker in MARKERS.splitlines())


def test_the_readme_shows_a_few_columns_of_the_first_table(tmp_path: Path, page: Path) -> None:
    make_run(tmp_path, "20260101T000000Z-worker-crash", "procrastinate")
    write(tmp_path, page)  # which writes the titles
    (library,) = (each for each in find_libraries().values() if each.name == "procrastinate")
    row = f"| {library.title_and_version} | 130 | 1 → 2 | 3 → 4 | 5 → 6 | 7 → 8 | 9 | 10 | 11 | 28 s | 1 |"
    titles = next(line for line in page.read_text().splitlines() if "capacity" in line)
    page.write_text(page.read_text().replace(f"{titles}\n", f"{titles}\n{row}\n", 1))
    write(tmp_path, page)
    assert f"| {library.title_and_version} | 130 | 3 → 4 | 7 → 8 | 28 s | never |" in page.with_name("README.md").read_text()


def test_the_readme_has_all_markers() -> None:
    assert all(marker in README.read_text() for marker in README_MARKERS.splitlines())
