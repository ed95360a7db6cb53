"""From the folders of made-up runs to the record, the pages and the terminal."""

from __future__ import annotations

import html
import io
import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from stallbench.errors import BadInputError
from stallbench.leftovers import remove_leftovers
from stallbench.run.folder import find_run_folder, find_study_folder
from stallbench.studies.comparison.record import ComparisonFolder
from stallbench.studies.comparison.screen import print_comparison
from tests.unit.made_up_comparison import conclude_comparison, make_made_up_comparison, make_made_up_record

pytestmark = pytest.mark.slow

SLOWNESS = {"control": 8.0, "cure": 1.1, "half": 4.0, "twice": 1.0}


@pytest.fixture(scope="module")
def concluded(tmp_path_factory: pytest.TempPathFactory) -> ComparisonFolder:
    """Three rounds of four variants, of which ``twice`` re-executes a job."""
    folder = make_made_up_comparison(tmp_path_factory.mktemp("runs"), SLOWNESS)
    conclude_comparison(folder)
    return folder


def read_json(folder: ComparisonFolder) -> dict[str, Any]:
    content: dict[str, Any] = json.loads((folder.path / "study.json").read_text())
    return content


def read_chart_data(folder: ComparisonFolder) -> dict[str, Any]:
    match = re.search(
        r'<script id="data" type="application/json">(.*?)</script>', (folder.path / "report.html").read_text(), re.DOTALL
    )
    assert match is not None
    data: dict[str, Any] = json.loads(match[1])
    return data


def show(folder: ComparisonFolder, width: int = 120) -> str:
    record, results = conclude_comparison(folder)
    console = Console(file=io.StringIO(), width=width)
    print_comparison(record, results, "report.html", console)
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def test_the_record_has_every_run_with_its_folder_its_seed_and_its_values(concluded: ComparisonFolder) -> None:
    content = read_json(concluded)
    assert [run["number"] for run in content["runs"]] == list(range(1, 13))
    assert len({run["seed"] for run in content["runs"]}) == 3
    for run in content["runs"]:
        assert (concluded.runs / run["folder"] / "run.json").exists()
        slower = SLOWNESS[run["variant"]] * (1 + 0.02 * run["round"])
        assert run["values"]["claim_ms.p95 in longtx / baseline"] == pytest.approx(slower)
        assert run["values"]["depth.last in recovered"] == 3
        assert run["values"]["wal_bytes.rate in baseline"] is None, "these runs have no such metric"
        assert run["values"]["re_executed.count"] == (1 if run["variant"] == "twice" else 0)
        assert run["values"]["executions.per_job"] == pytest.approx(1.01 if run["variant"] == "twice" else 1, abs=1e-3)
        assert run["values"]["order_diff.p99"] == 0


def test_the_record_has_the_results(concluded: ComparisonFolder) -> None:
    results = read_json(concluded)["results"]
    ranked = results["compared"][0]
    assert {name: standing["rank"] for name, standing in ranked["standings"].items()} == {
        "control": 4,
        "cure": 2,
        "half": 3,
        "twice": 1,
    }
    assert ranked["standings"]["cure"]["difference"]["high"] < 0
    assert {name: assessment["outcome"] for name, assessment in results["assessments"].items()} == {
        "cure": "works",
        "half": "delays",
        "twice": "works",
    }
    assert list(results["unsafe"]) == ["twice"]
    assert results["recommendation"].startswith("Use cure: ")
    assert "wal_bytes.rate in baseline" not in [each["subject"] for each in results["compared"]]


def test_the_page_is_self_contained(concluded: ComparisonFolder) -> None:
    page = (concluded.path / "report.html").read_text()
    assert not re.search(r"<(?:script|link|img)[^>]+(?:src|href)=", page)
    assert "uPlot" in page
    assert "not safe" in page
    assert "Use cure: " in page


def test_each_variant_has_one_curve_the_median_of_its_repetitions(concluded: ComparisonFolder) -> None:
    data = read_chart_data(concluded)
    assert data["t_s"] == list(range(80))
    curves = {chart["title"]: {one["label"]: one["values"] for one in chart["series"]} for chart in data["charts"]}
    assert list(curves["claim time p95, ms"]) == list(SLOWNESS)
    assert curves["claim time p95, ms"]["half"][30] == pytest.approx(2 * 4.0 * 1.04)
    assert curves["completed, jobs/s"]["cure"][79] == 100
    assert [phase["name"] for phase in data["phases"]] == ["baseline", "longtx", "recovered"]


def test_the_summary_is_tables_for_a_pull_request(concluded: ComparisonFolder) -> None:
    lines = (concluded.path / "summary.md").read_text().splitlines()
    assert lines[0] == "### made-up: control, cure, half, twice"
    header = next(line for line in lines if line.startswith("| rank |"))
    rule, first, second = lines[lines.index(header) + 1 :][:3]
    assert header.count("|") == rule.count("|") == first.count("|")
    assert first.startswith("| 1 | twice (not safe) | 1.04 |") and first.endswith("| works |")
    assert second.startswith("| 2 | cure |")
    assert lines[-1] == "`stallbench compare made-up --variants control,cure,half,twice --repeat 3 --seed 1`"


def test_results_and_pages_are_reproducible(concluded: ComparisonFolder) -> None:
    before = {path.name: path.read_bytes() for path in concluded.path.iterdir()}
    conclude_comparison(concluded)
    assert {path.name: path.read_bytes() for path in concluded.path.iterdir()} == before


def test_the_record_of_a_run_whose_folder_is_gone_stays(tmp_path: Path) -> None:
    folder = make_made_up_comparison(tmp_path, {"control": 8.0, "cure": 1.0})
    conclude_comparison(folder)
    before = read_json(folder)
    for run in before["runs"]:
        shutil.rmtree(tmp_path / run["folder"])
    conclude_comparison(folder)
    assert read_json(folder)["results"] == before["results"]
    assert read_chart_data(folder)["t_s"] == []


def test_a_run_that_was_not_carried_out_is_named_and_the_others_are_compared(tmp_path: Path) -> None:
    folder, _ = make_made_up_record({"control": [8.0, 8.1, 8.2, 8.1], "cure": [1.0, None, 1.1, 1.0]}, tmp_path)
    shown = show(folder)
    number = next(run["number"] for run in read_json(folder)["runs"] if run["status"] == "failed")
    assert f"Run {number} (cure, round 2) was not carried out: no server." in shown
    assert "Use cure: " in shown
    assert folder.read().exit_code == 3


def test_an_interrupted_comparison_is_marked_as_such(tmp_path: Path) -> None:
    folder, record = make_made_up_record({"control": [8.0, 8.1, 8.2], "cure": [1.0, 1.0, 1.1]}, tmp_path)
    folder.write(record.model_copy(update={"status": "aborted", "reason": "interrupted"}))
    assert "The comparison is not complete: interrupted. The figures are of the runs done so far." in " ".join(
        show(folder).split()
    )
    assert folder.read().exit_code == 130


def test_too_few_rounds_have_a_note_instead_of_a_confidence_interval(tmp_path: Path) -> None:
    folder, _ = make_made_up_record({"control": [8.0, 8.1], "cure": [1.0, 1.0]}, tmp_path)
    shown = show(folder)
    assert "(not enough rounds)" in shown
    assert "each variant needs at least 3, and one has 2." in shown
    assert " to " not in next(line for line in shown.splitlines() if "cure" in line).partition("(not enough")[2]


def test_where_no_variant_is_assessed_the_reason_is_given_once(tmp_path: Path) -> None:
    folder, _ = make_made_up_record({"control": [1.0, 1.05, 0.9], "a": [0.5, 0.5, 0.6], "b": [0.7, 0.7, 0.6]}, tmp_path)
    shown = show(folder)
    assert "No variant is assessed: control does not degrade, so there is nothing to mitigate." in shown
    assert shown.count("nothing to mitigate") == 1
    summary = (folder.path / "summary.md").read_text()
    assert "outcome |" not in summary
    table = [
        line.count("|")
        for line in summary.splitlines()
        if line.startswith(("| rank", "|---|---|---|---|---|---|---|", "| 1 ", "| 2 ", "| 3 "))
    ]
    assert len(set(table)) == 1


PUBLISHED = {
    "metric": "completed.rate",
    "phase": "longtx",
    "better": "higher",
    "published": {
        "a laptop of 2013, jobs/s": {"control": 91, "skip_locked_with_a_long_name": 120},
        "a server, jobs/s": {"control": 400},
    },
    "source": "An article",
}


def test_published_figures_are_shown_beside_ours_with_their_ranks(tmp_path: Path) -> None:
    measured = {"control": [90.0, 91, 92], "skip_locked_with_a_long_name": [80.0, 81, 82]}
    folder, _ = make_made_up_record(measured, tmp_path, comparison=PUBLISHED)
    shown = " ".join(show(folder).split())
    assert "control │ 91 (1) │ 91 (2) │ 400 (1)" in shown
    assert "skip_locked_with_a_long_name │ 81 (2) │ 120 (1) │ – " in shown
    assert "reversed here: control before skip_locked_with_a_long_name." in shown
    page = (folder.path / "report.html").read_text()
    assert "a laptop of 2013, jobs/s" in page
    assert "Published: An article" in page


def test_many_variants_with_long_names_fit_into_the_terminal(tmp_path: Path) -> None:
    names = ["control", *(f"optimistic_with_a_window_of_{n}" for n in range(1, 12))]
    figures = {name: float(n) for n, name in enumerate(names)}
    said = {**PUBLISHED, "published": {"here": figures, "there": figures}}
    folder, _ = make_made_up_record({name: [123456.789 + n] * 3 for n, name in enumerate(names)}, tmp_path, comparison=said)
    assert max(len(line) for line in show(folder).splitlines()) <= 120


def test_text_of_a_scenario_cannot_inject_script_into_the_page(tmp_path: Path) -> None:
    folder, _ = make_made_up_record(
        {"control": [1.0], "a": [None]},
        tmp_path,
        summary="</script><script>alert(1)</script>",
        comparison=PUBLISHED | {"published": {}},
    )
    conclude_comparison(folder)
    assert "<script>alert(1)" not in (folder.path / "report.html").read_text()


@pytest.mark.parametrize(
    ("verdicts", "code"), [(["pass", "pass"], 0), (["pass", "fail"], 1), (["unknown", "pass"], 1), (["pass", None], 3)]
)
def test_the_exit_code_depends_on_how_the_runs_ended(verdicts: list[str | None], code: int, tmp_path: Path) -> None:
    _, record = make_made_up_record({"control": [1.0], "a": [1.0]}, tmp_path)
    for run, verdict in zip(record.runs, verdicts, strict=True):
        status = "failed" if verdict is None else "completed"
        record = record.with_run(run.model_copy(update={"verdict": verdict, "status": status}))
    assert record.exit_code == code


def test_a_comparison_is_found_by_name_and_is_no_run(concluded: ComparisonFolder) -> None:
    assert find_study_folder(concluded.path.name, concluded.runs) == concluded.path.resolve()
    assert find_study_folder(str(concluded.path), Path("elsewhere")) == concluded.path.resolve()
    assert find_study_folder(read_json(concluded)["runs"][0]["folder"], concluded.runs) is None
    with pytest.raises(BadInputError, match="not a run's folder"):
        find_run_folder(concluded.path.name, concluded.runs)


def test_the_pages_and_the_terminal_name_the_number_of_adjusted_comparisons(tmp_path: Path) -> None:
    folder, _ = make_made_up_record({"control": [8.0, 8.1, 8.2], "cure": [1.0, 1.0, 1.1], "half": [4.0, 4.1, 4.0]}, tmp_path)
    sentence = "p-value is below 0.05 after Holm's adjustment over 2 comparisons in the ranked metric, claim_ms.p95 in longtx."
    assert sentence in " ".join(show(folder).split())
    assert sentence in html.unescape((folder.path / "report.html").read_text())
    assert sentence in html.unescape((folder.path / "summary.md").read_text())
    assert (read_json(folder)["results"]["comparisons"], read_json(folder)["results"]["other_comparisons"]) == (2, 0)


def test_the_other_metrics_are_a_family_of_their_own(tmp_path: Path) -> None:
    folder = make_made_up_comparison(tmp_path, {"control": 8.0, "cure": 1.0})
    shown = " ".join(show(folder).split())
    assert "over 1 comparison in the ranked metric, claim_ms.p95 in longtx, and over" in shown
    assert "comparisons in the other metrics." in shown


def test_the_comparison_of_a_dead_bench_is_marked_and_can_be_deleted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "nothing-else"))
    folder, record = make_made_up_record({"control": [1.0], "a": [1.0]}, tmp_path)
    dead = record.bench.model_copy(update={"process_started_s": 1.0})
    folder.write(record.model_copy(update={"status": "running", "bench": dead}))
    assert remove_leftovers(tmp_path) == [f"{folder.path.name}: marked as aborted"]
    assert folder.read().exit_code == 130
    assert remove_leftovers(tmp_path, delete_runs=True) == [f"{folder.path.name}: deleted"]
    assert not folder.path.exists()


def test_a_table_of_the_scenario_has_a_row_for_each_variant_and_for_what_was_not_run(tmp_path: Path) -> None:
    columns = [
        {"title": "claims, ms", "metric": "claim_ms.p95", "phase": "longtx"},
        {"title": "re-executed", "metric": "re_executed.count"},
        {"title": "refused", "metric": "refused.count"},
    ]
    choice = {"metric": "claim_ms.p95", "phase": "longtx", "better": "lower", "columns": columns}
    folder = make_made_up_comparison(tmp_path, {"control": 8.0, "twice": 1.0}, comparison=choice)
    folder.write(folder.read().model_copy(update={"left_out": {"a store": "no server"}}))
    shown = show(folder, width=200)
    lines = (folder.path / "summary.md").read_text().splitlines()
    assert "| variant | claims, ms | re-executed | refused |" in lines
    assert "| control | 16.6 (16.3 to 17) | 0 | no data |" in lines
    assert "| twice | 2.08 (2.04 to 2.12) | 1 | no data |" in lines
    assert "| a store | not run: no server | | |" in lines
    assert "not run: no server" in (folder.path / "report.html").read_text()
    assert re.search(r"a store +│ +not run: no server", shown)
