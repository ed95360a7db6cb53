"""The tables of comparisons in docs/libraries.md: each has the comparisons of its scenario and load."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

import pandas as pd
import pytest

from stallbench.libraries import find_libraries
from tests.unit.made_up_library_runs import (
    COMMON_CHANGES,
    HELD_CHANGES,
    make_comparison,
    make_page,
    make_run,
    read_section,
    write,
)
from tools.library_tables.library_run import LibraryRun
from tools.library_tables.text import read_cells

pytestmark = pytest.mark.slow


@pytest.fixture
def page(tmp_path: Path) -> Path:
    return make_page(tmp_path)


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


@pytest.mark.parametrize("change", ["producers.rate=40", "workers.count=9", "database.version=18"])
def test_a_comparison_at_another_load_replaces_no_row(tmp_path: Path, page: Path, change: str) -> None:
    make_comparison(tmp_path, "20260101", {"river": 700.0, "pgmq": 500.0}, "own")
    make_comparison(tmp_path, "20260102", {"river": 700.0, "pgmq": 500.0}, "common")
    write(tmp_path, page)
    before = page.read_text()
    make_comparison(tmp_path, "20260103", {"river": 90.0, "pgmq": 50.0}, "own", [*HELD_CHANGES, change])
    make_comparison(tmp_path, "20260104", {"river": 90.0, "pgmq": 50.0}, "common", [*COMMON_CHANGES, change])
    messages = write(tmp_path, page)
    assert page.read_text() == before
    key = change.partition("=")[0]
    for date in ("20260103", "20260104"):
        left_out = f"{date}T000000Z-compare-longtx is left out: it changes "
        assert any(left_out in message and key in message for message in messages), messages


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


def test_each_row_links_to_the_figures_of_its_runs(tmp_path: Path, page: Path) -> None:
    make_comparison(tmp_path, "20260101", {"river": 700.0, "pgmq": 500.0}, "own")
    write(tmp_path, page)
    link = re.search(
        r"^1\. \[20260101T000000Z\]\((results/library-runs/\S+\.csv)\): 1 round of ", read_section(page, "longtx"), re.MULTILINE
    )
    assert link is not None
    figures = pd.read_csv(page.parent / link[1])
    assert list(figures["run"]) == ["20260101T000001Z-longtx", "20260101T000002Z-longtx"]
    assert list(figures["verdict"]) == ["pass", "pass"]
    cells = read_cells(read_section(page, "longtx"))["River 0.51.1"]
    of_river = figures[figures["capacity, jobs/s"] == 700].iloc[0]
    assert of_river["claim statement, ms"] == cells["claim statement, ms"], "the median of one run is the run's"


def test_a_comparison_on_a_replica_has_its_own_table(tmp_path: Path, page: Path) -> None:
    make_comparison(tmp_path, "20260101", {"river": 700.0, "pgmq": 500.0}, "own", ["phases.longtx.jobs=10_000"], "longtx-replica")
    write(tmp_path, page)
    assert "| River 0.51.1 | 700 |" in read_section(page, "longtx-replica")
    assert "River" not in read_section(page, "longtx")


def test_the_cost_of_dead_tuples_is_the_rise_of_the_claim_statement_by_the_rise_of_dead_tuples(
    tmp_path: Path, page: Path
) -> None:
    make_comparison(tmp_path, "20260101", {"river": 700.0, "pgmq": 500.0}, "own")
    write(tmp_path, page)
    (folder, *_) = sorted(tmp_path.glob("*Z-longtx"))
    run = LibraryRun(folder)
    metrics = ("claim_statement_buffers.per_call", "claim_statement_ms.mean", "dead_tuples.mean")
    buffers, milliseconds, dead = ((run.metric(name, "longtx") or 0) - (run.metric(name, "baseline") or 0) for name in metrics)
    cells = read_cells(read_section(page, "longtx"))["River 0.51.1"]
    assert float(cells["buffers per claim and 1,000 dead tuples"]) == pytest.approx(1000 * buffers / dead, rel=0.01)
    assert float(cells["µs per claim and 1,000 dead tuples"]) == pytest.approx(1_000_000 * milliseconds / dead, rel=0.01)


def test_the_cost_of_dead_tuples_is_empty_if_it_was_not_measured(tmp_path: Path, page: Path) -> None:
    make_comparison(tmp_path, "20260101", {"river": 700.0, "pgmq": 500.0}, "own")
    for folder in tmp_path.glob("*Z-longtx"):
        (path,) = (folder / "tables" / "phases").glob("*.parquet")
        phases = pd.read_parquet(path)
        phases[~phases["measure"].str.startswith("claim_statement")].to_parquet(path)
    write(tmp_path, page)
    cells = read_cells(read_section(page, "longtx"))["River 0.51.1"]
    assert cells["dead tuples per job"]
    assert cells["buffers per claim and 1,000 dead tuples"] == cells["µs per claim and 1,000 dead tuples"] == ""


def test_a_library_that_does_not_run_on_the_engine_has_a_row_with_the_reason(tmp_path: Path, page: Path) -> None:
    make_comparison(
        tmp_path, "20260101", {"laravel": 150.0, "celery": 110.0}, "own", ["phases.longtx.jobs=6_000"], "longtx-innodb"
    )
    write(tmp_path, page)
    rows = read_cells(read_section(page, "longtx-innodb"))
    without = {library.title_and_version for library in find_libraries().values() if "mariadb" not in library.engines}
    assert set(rows) == without | {"Laravel's database queue 8.83.26", "Celery with a database as broker 5.7.0"}
    assert rows["River 0.51.1"]["capacity, jobs/s"] == "does not run on MariaDB: its drivers are for PostgreSQL and SQLite"
    assert set(rows["River 0.51.1"].values()) == {"River 0.51.1", rows["River 0.51.1"]["capacity, jobs/s"], ""}
    assert rows["Laravel's database queue 8.83.26"]["capacity, jobs/s"] == "150"
    assert "buffers per claim" not in rows["River 0.51.1"], "MariaDB does not count them"


def test_a_library_that_a_comparison_left_out_has_a_row_with_the_reason(tmp_path: Path, page: Path) -> None:
    make_comparison(tmp_path, "20260101", {"river": 700.0, "pgmq": 500.0}, "own", left_out={"oban": "no Python 3.12"})
    write(tmp_path, page)
    rows = read_cells(read_section(page, "longtx"))
    assert list(rows) == ["Oban for Python 0.7.0", "PGMQ 1.1.4", "River 0.51.1"]
    assert rows["Oban for Python 0.7.0"]["capacity, jobs/s"] == "not run: no Python 3.12"
    assert rows["Oban for Python 0.7.0"]["from"] == rows["River 0.51.1"]["from"] == "1"
    make_comparison(tmp_path, "20260102", {"oban": 90.0, "pgmq": 50.0}, "own", left_out={"river": "no go"})
    write(tmp_path, page)
    rows = read_cells(read_section(page, "longtx"))
    assert rows["Oban for Python 0.7.0"]["capacity, jobs/s"] == "90"
    assert rows["River 0.51.1"]["capacity, jobs/s"] == "700", "a reason replaces no figures"


def test_a_row_that_is_kept_has_no_figure_in_a_column_that_the_page_did_not_have(tmp_path: Path, page: Path) -> None:
    make_run(tmp_path, "20260101T000000Z-worker-crash", "procrastinate")
    row = "| library | capacity, jobs/s | connections | from |\n|---|---|---|---|\n| River 0.51.1 | 130 | 14 | 1 |\n\n1. the source\n"
    begin = "<!-- longtx: begin -->\n"
    page.write_text(page.read_text().replace(begin, begin + row, 1))
    write(tmp_path, page)
    cells = read_cells(read_section(page, "longtx"))["River 0.51.1"]
    assert (cells["capacity, jobs/s"], cells["connections"], cells["from"]) == ("130", "14", "1")
    assert cells["buffers per claim and 1,000 dead tuples"] == cells["latency p95, ms"] == ""
    assert "1. the source" in read_section(page, "longtx")
