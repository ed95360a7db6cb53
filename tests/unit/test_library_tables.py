"""The tables of docs/libraries.md are written from the runs on disk, and nothing else."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from stallbench.comparison.library_page import read_cells
from stallbench.comparison.library_run import LibraryRun
from stallbench.comparison.library_tables import PAGE, README, write_tables
from stallbench.comparison.plan import Load, Plan, interleave
from stallbench.comparison.record import ComparisonFolder, begin_comparison
from stallbench.comparison.subject import choose_subjects
from stallbench.errors import BadInputError
from stallbench.libraries import find_libraries
from tests.unit.made_up_comparison import make_scenario

SAMPLE = Path(__file__).resolve().parents[2] / "reports" / "sample"
TABLES = ("longtx", "longtx-common", "longtx-replica", "faults", "rescue", "settings")
MARKERS = "\n".join(f"<!-- {table}: begin -->\n<!-- {table}: end -->" for table in TABLES)
HELD_CHANGES = ("phases.longtx.until=duration", "phases.longtx.jobs=10_000")
README_MARKERS = "<!-- libraries: begin -->\n<!-- libraries: end -->"


@pytest.fixture
def page(tmp_path: Path) -> Path:
    path = tmp_path / "libraries.md"
    path.write_text(MARKERS)
    (tmp_path / "README.md").write_text(README_MARKERS)
    return path


def make_run(
    runs: Path,
    run_id: str,
    library: str,
    scenario: str = "worker-crash",
    snapshot: str = "",
    changes: Sequence[str] = (),
    file: str = "",
    exited: Sequence[str] = (),
    **of_scenario: Any,
) -> None:
    """Make a run of a library out of the sample run; workers named in ``exited`` exited although nothing had asked them to."""
    folder = runs / run_id
    shutil.copytree(SAMPLE, folder)
    record = json.loads((folder / "run.json").read_text())
    record["id"] = run_id
    queue = f'queue={{kind="library:{library}"}}'
    record["scenario"] |= {
        "name": scenario,
        "file": file or f"scenarios/{scenario}.toml",
        "changes": [queue, *changes],
        **of_scenario,
    }
    record["queue"]["kind"] = f"library:{library}"
    for process in record["processes"]:
        if process["name"] in exited:
            process |= {"intended": "running", "exit_code": 1}
    (folder / "run.json").write_text(json.dumps(record))
    (folder / "final_snapshot.csv").write_text(f"job_id,state\n{snapshot}")


def make_comparison(
    runs: Path,
    date: str,
    capacities: dict[str, float],
    load: Load,
    changes: Sequence[str] = HELD_CHANGES,
    scenario: str = "longtx",
) -> None:
    """Make a comparison of libraries with one round, whose runs are copies of the sample run."""
    chosen = {f"library:{name}": make_scenario(name=scenario, variant=None) for name in capacities}
    plan = Plan(
        scenario=make_scenario(name=scenario, file=f"scenarios/{scenario}.toml", changes=tuple(changes)),
        chosen=chosen,
        rounds=1,
        seed=1,
        subjects=choose_subjects(list(chosen.values())),
        runs=tuple(interleave(list(chosen), 1, 1)),
        load=load,
        capacities={f"library:{name}": capacity for name, capacity in capacities.items()},
        measured=("producers.rate=40",) if load == "common" else (),
    )
    begun, record = begin_comparison(plan, runs)
    for run in record.runs:
        run_id = f"{date}T00000{run.number}Z-{scenario}"
        make_run(runs, run_id, run.variant.removeprefix("library:"), scenario)
        record = record.with_run(run.model_copy(update={"status": "completed", "folder": run_id, "verdict": "pass"}))
    folder = ComparisonFolder(begun.path.rename(runs / f"{date}T000000Z-compare-{scenario}"))
    folder.write(record.model_copy(update={"status": "completed", "id": folder.path.name}))


def write(runs: Path, page: Path) -> list[str]:
    return write_tables(runs, page, page.with_name("README.md"))


def read_section(page: Path, table: str) -> str:
    return page.read_text().partition(f"<!-- {table}: begin -->")[2].partition(f"<!-- {table}: end -->")[0]


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
    assert (
        """1. 20260102T000000Z: `stallbench run worker-crash --set 'queue={kind="library:procrastinate"}'`""" in page.read_text()
    )
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
    assert "2. 20260102T000000Z: `stallbench run server-crash" in page.read_text()


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
    with pytest.raises(BadInputError, match="has no run of a library that can be shown; try: stallbench run worker-crash"):
        write(tmp_path, page)
    assert page.read_text() == MARKERS


def test_the_page_in_the_docs_has_all_markers() -> None:
    assert all(marker in PAGE.read_text() for marker in MARKERS.splitlines())


def test_the_readme_shows_a_few_columns_of_the_first_table(tmp_path: Path, page: Path) -> None:
    make_run(tmp_path, "20260101T000000Z-worker-crash", "procrastinate")
    write(tmp_path, page)  # which writes the titles
    (library,) = (each for each in find_libraries().values() if each.name == "procrastinate")
    row = f"| {library.title_and_version} | 130 | 1 → 2 | 3 → 4 | 5 → 6 | 7 → 8 | 9 |  |  | 10 | 11 | 28 s | 1 |"
    titles = next(line for line in page.read_text().splitlines() if "capacity" in line)
    page.write_text(page.read_text().replace(f"{titles}\n", f"{titles}\n{row}\n", 1))
    write(tmp_path, page)
    assert f"| {library.title_and_version} | 130 | 3 → 4 | 7 → 8 | 28 s | never |" in page.with_name("README.md").read_text()


def test_the_readme_has_all_markers() -> None:
    assert all(marker in README.read_text() for marker in README_MARKERS.splitlines())


@pytest.mark.parametrize(
    ("change", "key"),
    [
        ("phases.baseline.duration=1s", "phases.baseline.duration"),
        ('queue={kind="library:procrastinate",concurrency=9}', "queue.concurrency"),
        ("database.version=18", "database.version"),
    ],
)
def test_a_run_with_other_settings_than_the_page_allows_replaces_no_cell(
    tmp_path: Path, page: Path, change: str, key: str
) -> None:
    make_run(tmp_path, "20260101T000000Z-worker-crash", "procrastinate", snapshot="7,claimed\n")
    make_run(tmp_path, "20260102T000000Z-worker-crash", "procrastinate", changes=[change])
    messages = write(tmp_path, page)
    assert "1 stranded" in read_row(page, "Procrastinate")
    assert any(f"20260102T000000Z-worker-crash is left out: it changes {key}" in message for message in messages), messages


def test_a_run_of_another_file_with_the_name_of_a_scenario_replaces_no_cell(tmp_path: Path, page: Path) -> None:
    make_run(tmp_path, "20260101T000000Z-worker-crash", "procrastinate", snapshot="7,claimed\n")
    make_run(tmp_path, "20260102T000000Z-worker-crash", "procrastinate", file="mine/worker-crash.toml")
    messages = write(tmp_path, page)
    assert "1 stranded" in read_row(page, "Procrastinate")
    assert any("20260102T000000Z-worker-crash is left out: its file is mine/worker-crash.toml" in each for each in messages), (
        messages
    )


def test_a_run_at_another_rate_or_with_other_workers_says_so_in_its_footnote(tmp_path: Path, page: Path) -> None:
    make_run(
        tmp_path,
        "20260102T000000Z-pgbouncer",
        "procrastinate",
        "pgbouncer",
        changes=["producers.rate=30", "workers.count=4"],
    )
    write(tmp_path, page)
    command = """`stallbench run pgbouncer --set 'queue={kind="library:procrastinate"}' --set producers.rate=30 --set workers.count=4`"""
    assert f"1. 20260102T000000Z: {command}" in read_section(page, "faults")


def test_a_comparison_at_a_common_load_leaves_the_rows_at_own_capacity(tmp_path: Path, page: Path) -> None:
    make_comparison(tmp_path, "20260101", {"river": 700.0, "pgmq": 500.0}, "own")
    write(tmp_path, page)
    own, readme = read_section(page, "longtx"), page.with_name("README.md").read_text()
    assert "| River 0.51.1 | 700 |" in own
    assert "| River 0.51.1 | 700 |" in readme
    make_comparison(tmp_path, "20260102", {"river": 600.0, "pgmq": 400.0}, "common")
    write(tmp_path, page)
    assert read_section(page, "longtx") == own
    assert page.with_name("README.md").read_text() == readme
    assert "| River 0.51.1 | 600 | 40 |" in read_section(page, "longtx-common"), "with the load in jobs/s"


def test_a_given_rate_is_a_common_load(tmp_path: Path, page: Path) -> None:
    make_comparison(tmp_path, "20260101", {"river": 700.0, "pgmq": 500.0}, "own", [*HELD_CHANGES, "producers.rate=40"])
    write(tmp_path, page)
    assert "River" not in read_section(page, "longtx")
    assert "River" in read_section(page, "longtx-common")


@pytest.mark.parametrize(
    "changes",
    [(), (*HELD_CHANGES, "phases.baseline.duration=1s"), ("phases.longtx.jobs=100",)],
    ids=["jobs of the scenario", "phase", "jobs"],
)
def test_a_comparison_of_other_phases_replaces_no_row(tmp_path: Path, page: Path, changes: Sequence[str]) -> None:
    make_comparison(tmp_path, "20260101", {"river": 700.0, "pgmq": 500.0}, "own")
    make_comparison(tmp_path, "20260102", {"river": 600.0, "pgmq": 400.0}, "own", changes)
    messages = write(tmp_path, page)
    assert "| River 0.51.1 | 700 |" in read_section(page, "longtx")
    assert any("20260102T000000Z-compare-longtx is left out" in message for message in messages), messages


def test_a_comparison_on_a_replica_has_its_own_table(tmp_path: Path, page: Path) -> None:
    make_comparison(tmp_path, "20260101", {"river": 700.0, "pgmq": 500.0}, "own", ["phases.longtx.jobs=10_000"], "longtx-replica")
    write(tmp_path, page)
    assert "| River 0.51.1 | 700 |" in read_section(page, "longtx-replica")
    assert "River" not in read_section(page, "longtx")


def test_workers_of_which_a_part_exited_are_counted(tmp_path: Path, page: Path) -> None:
    make_run(tmp_path, "20260101T000000Z-pgbouncer", "celery", "pgbouncer", exited=["worker-1", "worker-4"])
    write(tmp_path, page)
    assert "2 of 4 workers exited" in read_row(page, "Celery")


def test_the_cost_of_a_dead_tuple_is_the_rise_of_the_claim_statement_by_the_rise_of_dead_tuples(
    tmp_path: Path, page: Path
) -> None:
    make_comparison(tmp_path, "20260101", {"river": 700.0, "pgmq": 500.0}, "own")
    write(tmp_path, page)
    (folder, *_) = sorted(tmp_path.glob("*Z-longtx"))
    run = LibraryRun(folder)
    metrics = ("claim_statement_buffers.per_call", "claim_statement_ms.mean", "dead_tuples.mean")
    buffers, milliseconds, dead = ((run.metric(name, "longtx") or 0) - (run.metric(name, "baseline") or 0) for name in metrics)
    cells = read_cells(read_section(page, "longtx"))["River 0.51.1"]
    assert float(cells["buffers per claim and dead tuple"]) == pytest.approx(buffers / dead, rel=0.01)
    assert float(cells["µs per claim and dead tuple"]) == pytest.approx(1000 * milliseconds / dead, rel=0.01)


def test_a_row_that_is_kept_has_no_figure_in_a_column_that_the_page_did_not_have(tmp_path: Path, page: Path) -> None:
    make_run(tmp_path, "20260101T000000Z-worker-crash", "procrastinate")
    row = "| library | capacity, jobs/s | connections | from |\n|---|---|---|---|\n| River 0.51.1 | 130 | 14 | 1 |\n\n1. the source\n"
    begin = "<!-- longtx: begin -->\n"
    page.write_text(page.read_text().replace(begin, begin + row, 1))
    write(tmp_path, page)
    cells = read_cells(read_section(page, "longtx"))["River 0.51.1"]
    assert (cells["capacity, jobs/s"], cells["connections"], cells["from"]) == ("130", "14", "1")
    assert cells["buffers per claim and dead tuple"] == cells["latency p95, ms"] == ""
    assert "1. the source" in read_section(page, "longtx")
