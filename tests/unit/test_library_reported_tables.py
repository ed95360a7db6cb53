"""The tables of scenarios of reported failures, made from comparisons of libraries that are copies of the sample run."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest

from tests.unit.made_up_library_runs import make_comparison, make_page, read_section, write
from tools.library_tables.library_run import LibraryRun
from tools.library_tables.text import read_cells


@pytest.fixture
def page(tmp_path: Path) -> Path:
    return make_page(tmp_path)


def make_idle_comparison(runs: Path, date: str, workers: int) -> None:
    """The sample run has no phase ``idle``; its phase ``longtx`` stands for it."""
    make_comparison(runs, date, {"river": 1, "pgmq": 1}, "common", [f"workers.count={workers}"], "idle-cost")
    for folder in runs.glob(f"{date}*Z-idle-cost"):
        (path,) = (folder / "tables" / "phases").glob("*.parquet")
        phases = pd.read_parquet(path)
        phases[phases["phase"] == "longtx"].assign(phase="idle").to_parquet(path)


def test_each_library_has_the_figures_of_the_idle_phase(tmp_path: Path, page: Path) -> None:
    make_idle_comparison(tmp_path, "20260101", workers=4)
    write(tmp_path, page)
    rows = read_cells(read_section(page, "idle-cost"))
    assert list(rows) == ["PGMQ 1.1.4", "River 0.51.1"]
    run = LibraryRun(next(tmp_path.glob("*Z-idle-cost")))
    assert float(rows["River 0.51.1"]["pickup p50, ms"]) == pytest.approx(run.metric("pickup_ms.p50", "idle"), rel=0.01)
    assert float(rows["River 0.51.1"]["claim statements per second"]) == pytest.approx(
        run.metric("claim_statement_calls.rate", "idle"), rel=0.01
    )


def test_a_comparison_with_another_number_of_workers_replaces_no_row(tmp_path: Path, page: Path) -> None:
    make_idle_comparison(tmp_path, "20260101", workers=4)
    make_idle_comparison(tmp_path, "20260102", workers=16)
    messages = write(tmp_path, page)
    assert [message for message in messages if message.startswith("20260102") and "it changes workers.count" in message]
    assert "20260102" not in read_section(page, "idle-cost")


def test_a_library_that_cannot_have_jobs_of_another_queue_has_a_row_with_the_reason(tmp_path: Path, page: Path) -> None:
    make_comparison(tmp_path, "20260101", {"river": 1, "pgqueuer": 1}, "common", [], "deep-backlog")
    write(tmp_path, page)
    section = read_section(page, "deep-backlog")
    assert "| River 0.51.1 |" in section
    assert "| PGMQ 1.1.4 | does not run in this scenario: each queue has a table of its own |" in section
