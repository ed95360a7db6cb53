"""The main job, shortened: from real servers to a report, what is left of it when it is over, and the commands that read such a run."""

from __future__ import annotations

import json
import re
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Any

import pytest

from stallbench.pipeline.tables import TABLES, read_table
from tests.end_to_end.conftest import RATE, Bench, RunHere, assert_nothing_is_left, short
from tests.pipeline.test_process import java_of
from tests.waiting import wait_for

pytestmark = pytest.mark.end_to_end

HELD_FOR = "phases.longtx.duration=20s"
"""So long that a forecast has its fifteen seconds, and that the transaction is seen to have held even if the collectors stand still for most of it."""
JUDGED = {
    *("conservation", "duplicates", "order", "deadlocks", "errors", "advisory locks", "starvation"),
    *("injections", "processes", "schedule", "records"),
}
"""The checks that have something to judge in this run; the rest say that they do not apply."""
METRIC = "latency_ms.p95 in longtx"


def test_a_run_goes_from_servers_to_a_report_a_forecast_and_a_baseline_and_leaves_nothing(
    bench_with_own_pipeline: Bench, use_pipeline_service: None, own_tmp: Path, run_here: RunHere
) -> None:
    bench = bench_with_own_pipeline
    ended = bench.run("run", "longtx", *short(HELD_FOR), environment={"TMPDIR": str(own_tmp)})
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert "Traceback" not in ended.stderr
    record, verdict, folder = bench.record(), bench.verdict(), bench.folder()

    assert record["status"] == "completed"
    assert verdict["verdict"] == "pass"
    results = {(finding["check"], finding["result"]) for finding in verdict["findings"]}
    assert {result for _, result in results} == {"pass", "info"}
    assert {check for check, result in results if result == "pass"} == JUDGED
    assert {process["exit_code"] for process in record["processes"]} == {0}

    (longrunner,) = record["injections"]
    assert longrunner["active_to_end"]
    assert longrunner["verified_ns"] <= record["phases"][2]["start_ns"]
    assert "idle_writer-1 (backend" in verdict["attribution"]["sentence"]
    assert verdict["attribution"]["holders"][0]["name"] == "idle_writer-1"

    conservation = read_table(folder, "conservation").set_index("state")["jobs"]
    assert conservation["enqueued"] == conservation["completed"] + conservation.get("queued", 0)

    page = (folder / "report.html").read_text()
    assert '<span class="badge pass">passed</span> The scenario has no expectations' in page
    assert not re.search(r"""(?:src|href|@import|url\()\s*=?\s*["']?(?:https?:)?//""", page), "the page fetches from the network"
    assert {case.get("name") for case in ET.parse(folder / "junit.xml").iter("testcase")} >= {"idle_writer-1"}
    assert (folder / "summary.md").read_text().startswith("### While one transaction was idle for ")
    assert "report.html" in ended.stdout
    assert {path.name for path in (folder / "tables").iterdir()} == set(TABLES)
    assert_nothing_is_left(bench, record["bench"]["pid"])
    wait_for(lambda: not list(own_tmp.iterdir()), lambda: f"the end of {list(own_tmp.iterdir())}", 60)
    assert java_of(own_tmp) == []

    moved = bench.runs.parent / "elsewhere"
    folder.rename(moved)
    for made in ("report.html", "verdict.json", "junit.xml", "summary.md"):
        (moved / made).unlink()
    assert_it_can_be_forecast(moved, run_here)
    assert_a_regression_is_seen(moved, run_here)


def assert_it_can_be_forecast(run: Path, run_here: RunHere) -> None:
    """`stallbench forecast` needs fifteen seconds with jobs, and on a machine that stood still for five says how many there were."""
    ended = run_here("forecast", str(run), "--json")
    if ended.returncode == 2:
        assert "a fit needs 15 or more" in ended.stderr
        return
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert f"producers.rate={json.loads(ended.stdout)['load']['rate']:g}" == RATE
    assert "Traceback" not in ended.stderr


def assert_a_regression_is_seen(run: Path, run_here: RunHere) -> None:
    """A run passes against a baseline made of itself, and fails against one that was quicker; each time the report is made anew from the folder."""
    file = run.parent / "baseline.json"
    written = run_here("baseline", str(run), "--output", str(file))
    assert written.returncode == 0, written.stderr
    assert written.stdout == f"{file}: 1 run of control\n"

    alike = run_here("report", str(run), "--against", str(file))
    assert alike.returncode == 0, alike.stdout + alike.stderr
    assert (run / "report.html").exists(), "a report is made again from the folder alone"
    results = {
        finding["subject"]: finding["result"] for finding in read_verdict(run)["findings"] if finding["check"] == "regression"
    }
    assert results[f"{METRIC} against the baseline"] == "pass"
    assert set(results.values()) == {"pass"}

    content = json.loads(file.read_text())
    values = content["variants"]["control"]["metrics"][METRIC]["values"]
    content["variants"]["control"]["metrics"][METRIC]["values"] = [value / 2 for value in values]
    file.write_text(json.dumps(content))
    slower = run_here("report", str(run), "--against", str(file))
    assert slower.returncode == 1, slower.stdout + slower.stderr
    assert f"{METRIC} is" in slower.stdout
    assert "worse by 100.0%" in slower.stdout
    assert "worse by 100.0%" in (run / "report.html").read_text()
    assert "<failure" in (run / "junit.xml").read_text()

    file.write_text("{")
    damaged = run_here("report", str(run), "--against", str(file))
    assert damaged.returncode == 2
    assert f"{file}: not a baseline" in damaged.stderr
    assert read_verdict(run)["verdict"] == "fail", "what was judged before is left as it was"


def read_verdict(run: Path) -> dict[str, Any]:
    content: dict[str, Any] = json.loads((run / "verdict.json").read_text())
    return content


@pytest.mark.long  # a second worker must claim in the moment before the re-check
def test_que_without_its_recheck_is_caught_and_so_is_an_expectation_that_does_not_hold(bench: Bench) -> None:
    impossible = 'expect=[{metric="claim_ms.p95", phase="baseline", at_most=0.000001}]'
    changes = short("producers.rate=600", "phases.longtx.duration=14s", "workers.count=8", "workers.work=0ms", impossible)
    ended = bench.run("run", "longtx", "--variant", "no_recheck", *changes)
    assert ended.returncode == 1, ended.stdout + ended.stderr
    assert "claim_ms.p95 in baseline is" in ended.stdout
    (finding,) = [finding for finding in bench.verdict()["findings"] if finding["check"] == "duplicates"]
    assert finding["result"] == "fail"
    assert finding["examples"]
    duplicates = read_table(bench.folder(), "duplicates")
    assert (duplicates["completions"] > 1).all()
    assert not duplicates["excused"].any()
