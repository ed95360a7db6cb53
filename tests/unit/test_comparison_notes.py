"""What a reader of a comparison must know before relying on a figure: what is missing from it, and why."""

from __future__ import annotations

import io
from pathlib import Path

import pandas as pd
import pytest
from rich.console import Console

from stallbench.studies.comparison.record import ComparisonFolder
from stallbench.studies.comparison.screen import print_comparison
from tests.unit.made_up_comparison import conclude_comparison, make_made_up_comparison, make_made_up_record

pytestmark = pytest.mark.slow


def show(folder: ComparisonFolder) -> str:
    """Make both pages, and return what the terminal shows, without line breaks."""
    record, results = conclude_comparison(folder)
    console = Console(file=io.StringIO(), width=200)
    print_comparison(record, results, "report.html", console)
    assert isinstance(console.file, io.StringIO)
    return " ".join(console.file.getvalue().split())


def test_what_was_left_out_is_named_on_the_terminal_and_in_both_pages(tmp_path: Path) -> None:
    folder = make_made_up_comparison(tmp_path, {"postgres:17": 8.0, "postgres:18": 1.0})
    reason = "database.settings.transaction_timeout needs PostgreSQL 17 or later; this is 16"
    changes = {"left_out": {"postgres:16": reason}, "versions": "postgres:16..18"}
    folder.write(folder.read().model_copy(update=changes))
    note = f"postgres:16 is left out: {reason}."
    assert note in show(folder)
    for page in ("report.html", "summary.md"):
        assert note in (folder.path / page).read_text()


def without_values(folder: ComparisonFolder, variant: str, rounds: int, versions: str | None = None) -> ComparisonFolder:
    """Let ``variant`` have no value of the ranked metric in its first ``rounds``, though they were completed: no job was, for example."""
    record = folder.read()
    for run in record.runs:
        if run.variant == variant and run.round <= rounds:
            record = record.with_run(run.model_copy(update={"values": {**run.values, record.ranked.key: None}}))
    folder.write(record.model_copy(update={"versions": versions}))
    return folder


def test_a_variant_without_a_value_in_a_completed_run_has_no_outcome(tmp_path: Path) -> None:
    """Otherwise a mitigation that stalls in every second run would be recommended for its good ones."""
    measured = {"control": [8.0, 8.1, 8.2, 8.1, 8.0], "cure": [1.0, 1.1, 1.0, 1.1, 1.0]}
    folder, _ = make_made_up_record(measured, tmp_path)
    assert "Use cure" in show(folder)
    shown = show(without_values(folder, "cure", 2))
    assert "Use cure" not in shown
    assert (
        "cure has no value of claim_ms.p95 in longtx / baseline in 2 of 5 completed runs; its figures are those of the" in shown
    )
    results = folder.read().results
    assert results is not None
    assert results["assessments"]["cure"] == {"outcome": None, "reason": "no value in 2 of 5 completed runs"}


@pytest.mark.parametrize(("rounds", "change"), [(2, "−50%"), (5, "no figures")])
def test_an_upgrade_is_not_judged_by_the_rounds_that_have_a_value(rounds: int, change: str, tmp_path: Path) -> None:
    """More rounds would not help, so the answer is not that there are too few."""
    measured = {"postgres:14": [8.0, 8.2, 8.1, 8.0, 8.1], "postgres:18": [4.0, 4.1, 4.1, 3.9, 4.0]}
    folder, _ = make_made_up_record(measured, tmp_path)
    shown = show(without_values(folder, "postgres:18", rounds, "postgres:14,postgres:18"))
    sentence = "was not judged by claim_ms.p95 in longtx / baseline, because on PostgreSQL 18 it was not measured in every run: "
    assert f"The upgrade from PostgreSQL 14 to 18 {sentence}" in shown
    assert change in shown.partition(sentence)[2]
    assert "not measured in every run │" in shown
    assert "rounds are not enough" not in shown


def test_jobs_of_unknown_state_are_not_counted_as_none_lost(tmp_path: Path) -> None:
    folder = make_made_up_comparison(tmp_path, {"control": 8.0, "cure": 1.0})
    show(folder)
    assert {run.values["lost.count"] for run in folder.read().runs} == {0.0}
    unknown = pd.DataFrame([["enqueued", 3, [1, 2, 3]], ["unknown", 3, [1, 2, 3]]], columns=["state", "jobs", "examples"])
    for run in folder.read().runs:
        assert run.folder is not None
        unknown.to_parquet(tmp_path / run.folder / "tables" / "conservation" / "part.parquet")
    show(folder)
    assert {run.values["lost.count"] for run in folder.read().runs} == {None}


def test_the_record_of_a_comparison_that_still_runs_is_left_to_the_process_that_writes_it(tmp_path: Path) -> None:
    """Its report takes seconds, in which the comparison may have recorded its last run."""
    folder = make_made_up_comparison(tmp_path, {"control": 8.0, "cure": 1.0})
    folder.write(folder.read().model_copy(update={"status": "running"}))
    before = (folder.path / "study.json").read_text()
    assert "The comparison is not complete" in show(folder)
    assert (folder.path / "study.json").read_text() == before
    dead = folder.read().bench.model_copy(update={"process_started_s": 1.0})
    folder.write(folder.read().model_copy(update={"bench": dead}))
    show(folder)
    assert folder.read().results is not None
