"""A soak's page and summary show each drift, each cycle, and where it ran."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from stallbench.run.record import describe_bench
from stallbench.scenario.file import read_scenario
from stallbench.studies.soak.drift import find_drifts
from stallbench.studies.soak.folder import SoakFolder
from stallbench.studies.soak.record import CycleRun, Figure, SoakRecord
from stallbench.studies.soak.report import make_pages
from tests.unit.made_up_run import START_NS, make_record

CYCLES = 10
LEAK = "memory of worker-1, MiB"
STEADY = "claim_ms.p95 in baseline"


def make_cycle(number: int, **changes: Any) -> CycleRun:
    known = {
        "number": number,
        "server_set": 1 if number < 8 else 2,
        "status": "completed",
        "verdict": "pass",
        "start_ns": START_NS + number * 60 * 10**9,
        "spent_s": 60.0,
        "pause_s": 5.0,
        "bytes": 2**20,
        "figures": {
            LEAK: Figure(value=100.0 + number, metric="memory_bytes", process="worker-1"),
            STEADY: Figure(value=2.0 + number % 3 / 10, metric="claim_ms.p95", phase="baseline"),
        },
    }
    return CycleRun(**{**known, **changes})


def make_soak(folder: Path) -> dict[str, str]:
    """Return the pages of a soak of ten cycles, by their names: the third fails, the last was killed."""
    cycles = [make_cycle(number) for number in range(1, CYCLES + 1)]
    cycles[2] = make_cycle(3, verdict="fail", reason="3 jobs were <lost>", left_over=7)
    cycles.append(make_cycle(CYCLES + 1, status="aborted", verdict=None, reason="the bench was killed", figures={}))
    record = SoakRecord(
        id="made-up-soak",
        status="completed",
        bench=describe_bench(),
        scenario=read_scenario("longtx-again"),
        for_s=3600,
        keep=2,
        is_external=False,
        notes=("A note.",),
        runs=tuple(cycles),
        bound_bytes=10 * 2**30,
    )
    soak = SoakFolder(folder)
    first = soak.cycle(1)
    first.path.mkdir(parents=True)
    first.record.write_text(json.dumps(make_record()))
    (first.path / "report.html").touch()
    make_pages(soak, record, find_drifts(record))
    return {name: (folder / name).read_text() for name in ("report.html", "summary.md")}


def test_each_drift_is_shown_and_a_significant_one_is_marked(tmp_path: Path) -> None:
    pages = make_soak(tmp_path)
    assert re.search(rf"<th scope=\"row\">{LEAK}</th><td>\S+</td><td>\+60</td>.*<strong>rises</strong>", pages["report.html"])
    assert not re.search(rf"<th scope=\"row\">{STEADY}</th>.*<strong>", pages["report.html"])
    assert re.search(rf"\| {LEAK} \|.*\| rises \|", pages["summary.md"])


def test_each_cycle_has_its_verdict_its_page_and_its_reason(tmp_path: Path) -> None:
    pages = make_soak(tmp_path)
    cycles = re.findall(r"<tr>\s*<th scope=\"row\">(?:<a href=\"([^\"]*)\">)?(\d+)(?:</a>)?</th>", pages["report.html"])
    assert cycles == [("cycles/0001/report.html", "1"), *(("", str(number)) for number in range(2, CYCLES + 2))]
    assert '<span class="badge fail">fail</span></td>\n      <td>7</td>' in pages["report.html"]
    assert "3 jobs were &lt;lost&gt;" in pages["report.html"]
    assert "<td>aborted, not counted</td>" in pages["report.html"]
    assert "- cycle 3: fail: 3 jobs were \\<lost>" in pages["summary.md"]
    assert "- cycle 11: aborted: the bench was killed" in pages["summary.md"]


def test_the_curves_have_a_point_for_each_cycle_and_a_gap_between_servers(tmp_path: Path) -> None:
    match = re.search(r'<script id="data" type="application/json">(.*?)</script>', make_soak(tmp_path)["report.html"], re.DOTALL)
    assert match is not None
    data = json.loads(match[1])
    assert [band["name"] for band in data["phases"]] == ["servers 1", "servers 2"]
    assert [(band["name"], band["from_s"], band["to_s"]) for band in data["bands"]] == [("cycle 3", 2.0, 3.0)]
    assert len(data["t_s"]) == CYCLES + 1
    (memory,) = (chart for chart in data["charts"] if chart["title"].startswith("Memory"))
    (line,) = memory["series"]
    assert line["label"] == "worker-1"
    assert line["values"] == [*(100.0 + n for n in range(1, 8)), None, *(100.0 + n for n in range(8, CYCLES + 1))]


def test_one_cycle_has_no_drift_and_the_page_says_why(tmp_path: Path) -> None:
    record = SoakRecord(
        id="made-up-soak",
        bench=describe_bench(),
        scenario=read_scenario("longtx-again"),
        for_s=60,
        keep=2,
        is_external=False,
        runs=(make_cycle(1),),
        bound_bytes=10 * 2**30,
    )
    make_pages(SoakFolder(tmp_path), record, find_drifts(record))
    for name in ("report.html", "summary.md"):
        assert "A slope needs two cycles on the same servers." in (tmp_path / name).read_text()


@pytest.mark.parametrize("has_record", [True, False])
def test_the_host_is_that_of_the_first_cycle_whose_record_exists(tmp_path: Path, has_record: bool) -> None:
    make_soak(tmp_path)
    soak = SoakFolder(tmp_path)
    if not has_record:
        soak.cycle(1).record.unlink()
    record = SoakRecord(
        id="made-up-soak",
        bench=describe_bench(),
        scenario=read_scenario("longtx-again"),
        for_s=3600,
        keep=2,
        is_external=False,
        runs=(make_cycle(1),),
    )
    make_pages(soak, record, {})
    page = (tmp_path / "report.html").read_text()
    assert ("<dt>host</dt><dd>2 x cpu, 1 GiB, Debian, kernel 6</dd>" in page) is has_record
