"""The tables of libraries in the documentation are written from the runs on disk, and nothing else."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pandas as pd
import pytest

from stallbench.base.number_text import format_value
from stallbench.errors import BadInputError
from stallbench.libraries import find_libraries
from tests.unit.made_up_library_runs import MARKERS, README_MARKERS, make_page, make_run, read_row, read_section, write
from tools.library_tables.library_run import LibraryRun
from tools.library_tables.tables import PAGES, README, write_tables
from tools.library_tables.text import read_cells


@pytest.fixture
def page(tmp_path: Path) -> Path:
    return make_page(tmp_path)


def test_a_cell_is_of_the_newest_run_and_refers_to_it(tmp_path: Path, page: Path) -> None:
    make_run(tmp_path, "20260101T000000Z-worker-crash", "procrastinate", snapshot="7,claimed\n")
    make_run(tmp_path, "20260102T000000Z-worker-crash", "procrastinate", snapshot="8,claimed\n9,claimed\n10,ready\n")
    write(tmp_path, page)
    row = read_row(page, "Procrastinate")
    assert "2 stranded" in row
    assert row.endswith("(1) |  |  |  |  |  |  |  |"), "the cells of the other scenarios are empty"
    assert (
        """1. [20260102T000000Z](results/library-runs/faults.csv): `stallbench run worker-crash --set 'queue={kind="library:procrastinate"}'`"""
        in page.read_text()
    )
    assert "20260101" not in page.read_text()


def test_a_variant_with_a_column_of_its_own_does_not_replace_a_run_of_its_scenario(tmp_path: Path, page: Path) -> None:
    at_30 = ["producers.rate=30"]
    make_run(tmp_path, "20260101T000000Z-pgbouncer", "procrastinate", "pgbouncer", "7,claimed\n", at_30)
    make_run(tmp_path, "20260102T000000Z-pgbouncer", "procrastinate", "pgbouncer", changes=at_30, variant="from_the_start")
    make_run(tmp_path, "20260103T000000Z-pgbouncer", "procrastinate", "pgbouncer", changes=at_30, variant="que")
    write(tmp_path, page)
    cells = read_cells(read_section(page, "faults"))[find_libraries()["procrastinate"].title_and_version]
    assert "1 stranded" in cells["`pgbouncer`"]
    assert "nothing lost or repeated" in cells["`pgbouncer --variant from_the_start`"]
    assert "stallbench run pgbouncer --variant from_the_start --set" in read_section(page, "faults")
    figures = pd.read_csv(page.parent / "results" / "library-runs" / "faults.csv")
    assert sorted(zip(figures["scenario"], figures["run"], strict=True)) == [
        ("pgbouncer", "20260101T000000Z-pgbouncer"),
        ("pgbouncer --variant from_the_start", "20260102T000000Z-pgbouncer"),
    ]


def test_a_cell_begins_with_a_fault_that_was_not_complete(tmp_path: Path, page: Path) -> None:
    make_run(tmp_path, "20260101T000000Z-rolling-deploy", "procrastinate", "rolling-deploy", snapshot="7,claimed\n")
    folder = tmp_path / "20260101T000000Z-rolling-deploy"
    record = json.loads((folder / "run.json").read_text())
    why = "only 1 of 3 deployments were complete when its time was over; the last new worker that could not start was killed"
    lapsed = {
        "name": "deploy-1",
        "category": "fault",
        "kind": "deploy",
        "on": "workers",
        "active_to_end": False,
        "why_ended": why,
    }
    (folder / "run.json").write_text(json.dumps(record | {"injections": [lapsed]}))
    write(tmp_path, page)
    assert "|  | only 1 of 3 deployments were complete when its time was over, " in page.read_text()
    assert "that could not start" not in page.read_text()


@pytest.mark.parametrize("intended", ["running", "stopped"], ids=["during the load", "noticed when the load had ended"])
def test_a_run_that_ended_because_every_worker_had_exited_says_so(tmp_path: Path, page: Path, intended: str) -> None:
    make_run(tmp_path, "20260101T000000Z-server-crash", "delayed_job", "server-crash")
    path = tmp_path / "20260101T000000Z-server-crash" / "run.json"
    record = json.loads(path.read_text())
    for process in record["processes"]:
        if process["role"] == "worker":
            process |= {"intended": intended, "exit_code": 1}
    reason = f"every worker has ended; see {path.parent}/logs"
    path.write_text(json.dumps(record | {"status": "failed", "reason": reason}))
    shutil.rmtree(path.parent / "tables")
    write(tmp_path, page)
    assert "|  |  | every worker exited (1) |  |" in page.read_text()
    figures = pd.read_csv(page.parent / "results" / "library-runs" / "faults.csv")
    assert list(figures["reason"]) == ["every worker has ended; see 20260101T000000Z-server-crash/logs"], "no machine's path"


def test_a_cell_without_a_run_on_this_disk_keeps_what_the_page_says(tmp_path: Path, page: Path) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    make_run(first, "20260101T000000Z-worker-crash", "procrastinate")
    write(first, page)
    before = read_row(page, "Procrastinate")
    make_run(second, "20260102T000000Z-server-crash", "river", "server-crash")
    write(second, page)
    assert read_row(page, "Procrastinate") == before
    assert read_row(page, "River").endswith("(2) |  |  |  |  |  |")
    assert "2. [20260102T000000Z](results/library-runs/faults.csv): `stallbench run server-crash" in page.read_text()


def test_each_cell_links_to_the_figures_of_its_run(tmp_path: Path, page: Path) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    make_run(first, "20260101T000000Z-worker-crash", "procrastinate", snapshot="7,claimed\n")
    make_run(first, "20260101T000001Z-worker-crash", "river")
    write(first, page)
    make_run(second, "20260102T000000Z-worker-crash", "river", snapshot="7,claimed\n8,claimed\n", exited=["worker-1"])
    write(second, page)
    figures = pd.read_csv(page.parent / "results" / "library-runs" / "faults.csv").set_index("library")
    assert list(figures.index) == ["procrastinate", "river"], "the newer run replaces the older one, another is kept"
    river = figures.loc["river"]
    assert (river["run"], river["scenario"], river["verdict"]) == ("20260102T000000Z-worker-crash", "worker-crash", "pass")
    assert (river["jobs enqueued"], river["jobs completed"], river["stranded"], river["workers exited"]) == (910, 910, 2, 1)
    assert "2 stranded, 1 of" in read_row(page, "River")


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


def test_each_marker_is_on_one_page_of_the_docs() -> None:
    text = "".join(page.read_text() for page in PAGES)
    assert [text.count(marker) for marker in MARKERS.splitlines()] == [1] * len(MARKERS.splitlines())


def test_a_table_is_written_to_the_page_that_has_its_markers(tmp_path: Path, page: Path) -> None:
    of_faults = "<!-- faults: begin -->\n<!-- faults: end -->\n"
    page.write_text(page.read_text().replace(of_faults, ""))
    make_run(tmp_path, "20260101T000000Z-worker-crash", "procrastinate")
    with pytest.raises(BadInputError, match=r"libraries\.md: has no markers for the table faults; add the lines"):
        write(tmp_path, page)
    other = page.with_name("faults.md")
    other.write_text(of_faults)
    write_tables(tmp_path, [page, other], page.with_name("README.md"))
    assert "nothing lost or repeated" in other.read_text()
    assert "nothing by default" in page.read_text(), "the table of rescues"


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


def test_a_run_at_another_load_says_so_in_its_footnote_and_replaces_no_cell_of_a_run_without(tmp_path: Path, page: Path) -> None:
    changed = tmp_path / "changed"
    make_run(changed, "20260102T000000Z-worker-crash", "procrastinate", changes=["producers.rate=40", "workers.count=4"])
    make_run(changed, "20260103T000000Z-worker-crash", "river")
    write(changed, page)
    command = """`stallbench run worker-crash --set 'queue={kind="library:procrastinate"}' --set producers.rate=40 --set workers.count=4`"""
    assert f"1. [20260102T000000Z](results/library-runs/faults.csv): {command}" in read_section(page, "faults")
    make_run(tmp_path, "20260101T000000Z-worker-crash", "procrastinate", snapshot="7,claimed\n")
    write(tmp_path, page)
    assert "1 stranded" in read_row(page, "Procrastinate")
    published = page.read_text()
    reason = "20260102T000000Z-worker-crash is left out: it changes producers.rate, workers.count, and there is a run without"
    assert reason in write(changed, page), "the run without is on the page only"
    assert page.read_text() == published
    shutil.move(changed / "20260102T000000Z-worker-crash", tmp_path)
    assert reason in write(tmp_path, page), "both are on the disk"
    assert page.read_text() == published


def test_a_run_whose_server_logged_every_statement_is_shown_with_the_option_in_its_command(tmp_path: Path, page: Path) -> None:
    make_run(tmp_path, "20260101T000000Z-worker-crash", "river")
    make_run(tmp_path, "20260102T000000Z-worker-crash", "river", changes=["database.settings.log_statement=all"])
    write(tmp_path, page)
    command = """`stallbench run worker-crash --set 'queue={kind="library:river"}' --set database.settings.log_statement=all`"""
    assert f"1. [20260102T000000Z](results/library-runs/faults.csv): {command}" in read_section(page, "faults")


def test_a_run_at_the_scenario_s_own_rate_replaces_no_cell_of_the_rate_that_the_page_states(tmp_path: Path, page: Path) -> None:
    make_run(tmp_path, "20260101T000000Z-pgbouncer", "celery", "pgbouncer", "7,claimed\n", ["producers.rate=30"])
    make_run(tmp_path, "20260102T000000Z-pgbouncer", "celery", "pgbouncer")
    make_run(tmp_path, "20260103T000000Z-pgbouncer", "celery", "pgbouncer", changes=["producers.rate=50"])
    messages = write(tmp_path, page)
    assert "1 stranded" in read_row(page, "Celery")
    assert "20260102T000000Z-pgbouncer is left out: the page's runs have --set producers.rate=30" in messages
    assert any("20260103T000000Z-pgbouncer is left out: it changes producers.rate; allowed:" in each for each in messages), (
        messages
    )


def test_workers_of_which_a_part_exited_are_counted(tmp_path: Path, page: Path) -> None:
    make_run(
        tmp_path,
        "20260101T000000Z-pgbouncer",
        "celery",
        "pgbouncer",
        changes=["producers.rate=30"],
        exited=["worker-1", "worker-4"],
    )
    write(tmp_path, page)
    assert "2 of 4 workers exited" in read_row(page, "Celery")


def test_what_is_in_force_in_each_worker_process_is_listed_with_its_source(tmp_path: Path, page: Path) -> None:
    make_run(tmp_path, "20260101T000000Z-worker-crash", "procrastinate")
    write(tmp_path, page)
    rows = read_cells(read_section(page, "workers"))
    assert list(rows) == [library.title_and_version for library in find_libraries().values()]
    assert [
        rows["pg-boss 12.38.0"][name] for name in ("concurrency", "batch size", "poll interval", "rescue interval", "pool")
    ] == [
        "1",
        "10",
        "30 s",
        "60 s",
        "4",
    ]
    assert "*poll interval*: dist/attorney.js: notifyPollingInterval" in rows["pg-boss 12.38.0"]["where the values are from"]
    differs = read_cells(read_section(page, "start"))["Celery with a database as broker 5.7.0"]["in what the adapter differs"]
    assert "--pool=solo" in differs


def test_a_cell_says_how_much_more_a_claim_reads_while_a_longrunner_holds_the_horizon(tmp_path: Path, page: Path) -> None:
    make_run(tmp_path, "20260101T000000Z-stuck-listener", "procrastinate", "stuck-listener", changes=["producers.rate=30"])
    write(tmp_path, page)
    run = LibraryRun(tmp_path / "20260101T000000Z-stuck-listener")
    before, held = (run.metric("claim_statement_buffers.per_call", phase) for phase in ("baseline", "longtx"))
    assert before is not None
    assert held is not None
    assert f"{format_value(before)} → {format_value(held)} buffers per claim" in read_row(page, "Procrastinate")
