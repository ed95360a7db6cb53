"""The main job, shortened: from real servers to a report, and what is left of it when it is over."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET

import pytest

from stallbench.pipeline.tables import read_table
from tests.end_to_end.conftest import Bench, assert_nothing_is_left, short

pytestmark = pytest.mark.end_to_end


def test_a_run_goes_from_servers_to_a_report_and_leaves_nothing(bench_with_own_pipeline: Bench) -> None:
    bench = bench_with_own_pipeline
    # So long that the transaction is seen to have held for some time even if the collectors stand still for most of it.
    ended = bench.run("run", "longtx", *short("phases.longtx.duration=7s"))
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert "Traceback" not in ended.stderr
    record, verdict, folder = bench.record(), bench.verdict(), bench.folder()

    assert record["status"] == "completed"
    assert verdict["verdict"] == "pass"
    assert {process["exit_code"] for process in record["processes"]} == {0}

    (longrunner,) = record["injections"]
    assert longrunner["active_to_end"]
    assert longrunner["verified_ns"] <= record["phases"][2]["start_ns"]
    assert "idle_writer-1 (backend" in verdict["attribution"]["sentence"]
    assert verdict["attribution"]["holders"][0]["name"] == "idle_writer-1"

    conservation = read_table(folder, "conservation").set_index("state")["jobs"]
    assert conservation["enqueued"] == conservation["completed"] + conservation.get("queued", 0)

    page = (folder / "report.html").read_text()
    assert "PASS" in page
    assert not re.search(r"""(?:src|href|@import|url\()\s*=?\s*["']?(?:https?:)?//""", page), "the page fetches from the network"
    assert {case.get("name") for case in ET.parse(folder / "junit.xml").iter("testcase")} >= {"idle_writer-1"}
    assert (folder / "summary.md").read_text().startswith("### PASS: longtx")
    assert "report.html" in ended.stdout
    assert_nothing_is_left(bench, record["bench"]["pid"])

    moved = bench.runs.parent / "elsewhere"
    folder.rename(moved)
    for made in ("report.html", "verdict.json", "junit.xml", "summary.md"):
        (moved / made).unlink()
    again = bench.run("report", str(moved))
    assert again.returncode == 0, again.stderr
    assert (moved / "report.html").exists(), "a report is made again from the folder alone"


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
