"""The report shows what the tables hold, also when they hold little."""

from __future__ import annotations

import json
import re
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from stallbench.engines.postgres.deadlock_log import DeadlockLog
from stallbench.records.samples import Sample, SampleLog
from stallbench.report import make_report
from stallbench.verdicts import judge
from tests.unit.made_up_run import EMPTY, make_fault, make_phases, make_record, make_run, sample_horizon

pytestmark = pytest.mark.slow


def make_pages(folder: Path, record: dict[str, Any] | None = None, tables: dict[str, pd.DataFrame] | None = None) -> str:
    run = make_run(folder, record, **(tables or {}))
    return make_report(run, judge(run)).read_text()


def test_the_page_is_self_contained(tmp_path: Path) -> None:
    page = make_pages(tmp_path)
    assert not re.search(r"<(?:script|link|img)[^>]+(?:src|href)=", page)
    assert "uPlot" in page
    assert len(page) < 1_000_000


def test_the_charts_get_every_second_of_the_run(tmp_path: Path) -> None:
    page = make_pages(tmp_path)
    match = re.search(r'<script id="data" type="application/json">(.*?)</script>', page, re.DOTALL)
    assert match is not None
    data = json.loads(match[1])
    assert data["t_s"] == list(range(80))
    assert [phase["name"] for phase in data["phases"]] == ["baseline", "longtx", "recovered"]


def test_text_of_a_scenario_cannot_inject_script_into_the_page(tmp_path: Path) -> None:
    errors = pd.DataFrame(
        [["longtx", "longtx", "</script><script>alert(1)</script>", "error", "x", "claim", [], 1]], columns=EMPTY["errors"]
    )
    record = make_record(notes=["<b>note</b>"])
    page = make_pages(tmp_path, record, {"errors": errors})
    assert "<script>alert(1)" not in page
    assert "&lt;b&gt;note&lt;/b&gt;" in page


def test_a_host_that_was_busy_before_anything_was_disturbed_is_named_before_any_figure(tmp_path: Path) -> None:
    for percent, is_named in ((99.0, True), (60.0, False)):
        folder = tmp_path / str(percent)
        folder.mkdir()
        page = make_pages(folder, tables={"phases": make_phases({("baseline", "cpu_percent.mean"): percent})})
        assert ("The host was busy: 99 % of its processor time was in use in baseline" in page) is is_named


def test_errors_outside_the_phases_are_shown_apart_from_those_before_the_first_one(tmp_path: Path) -> None:
    phases: tuple[tuple[str | None, str | None, int], ...] = (
        (None, None, 1),
        (None, "longtx", 2),
        (None, "recovered", 3),
        ("longtx", "longtx", 9),
    )
    rows: list[tuple[object, ...]] = [
        (phase, latest, "worker-1", "error", "57P01", "claim", [], count) for phase, latest, count in phases
    ]
    page = make_pages(tmp_path, tables={"errors": pd.DataFrame(rows, columns=EMPTY["errors"])})
    shown = re.findall(r'<tr><th scope="row">([^<]*)</th><td>57P01</td><td>claim</td><td>([^<]*)</td>', page)
    assert shown == [("longtx", "9"), ("outside phases", "5"), ("before the first phase", "1")]


@pytest.mark.parametrize("status", ["aborted", "failed"])
def test_a_run_that_broke_off_still_has_a_report(tmp_path: Path, status: str) -> None:
    record = make_record(status=status, reason="the bench was killed")
    for phase in record["phases"][1:]:
        phase["start_ns"] = phase["end_ns"] = None
    empty = {name: pd.DataFrame(columns=EMPTY[name]) for name in EMPTY}
    page = make_pages(tmp_path, record, {"order": pd.DataFrame({"diff": [], "claims": []}), **empty})
    assert f"The run was {status}: the bench was killed" in page
    assert "Not completed: the run was" in page


@pytest.mark.parametrize("has_holder", [True, False])
def test_the_page_says_for_which_part_of_the_run_the_horizon_was_not_sampled(tmp_path: Path, has_holder: bool) -> None:
    holder = ["primary", "4711:1", "backend", 4711, "psql", "active", "", False, 20.0, 40.0, 20.0, 9, 20.0, None]
    run = make_run(tmp_path, holders=pd.DataFrame([holder] if has_holder else [], columns=EMPTY["holders"]))
    (tmp_path / "samples" / "horizon.csv").write_text(sample_horizon(range(50)))
    _, section = make_report(run, judge(run)).read_text().split("<h2>Holders of the horizon</h2>")
    section, _, _ = section.partition("<h2>")
    assert (
        "<p>The horizon was not sampled from 49 s to 80 s, in all of recovered, so it is not known what held it then.</p>"
        in section
    )
    assert ("While the horizon was sampled, nothing held it" in section) is not has_holder


def test_junit_has_a_case_for_each_finding_with_its_reason(tmp_path: Path) -> None:
    row = [7, 2, 2, "worker-1, worker-2", False, "why", "", None]
    make_pages(tmp_path, tables={"duplicates": pd.DataFrame([row], columns=EMPTY["duplicates"])})
    suite = ET.parse(tmp_path / "junit.xml").getroot()
    failures = [failure.get("message") for failure in suite.iter("failure")]
    assert failures == [
        "No fault was injected. 1 job (7) re-executed with no failure that explains it. Nothing lost. Failed: 1 jobs were executed or completed "
        "more than once (1 repeated executions), 1 of them without a reason that the promise allows.",
        "1 jobs were executed or completed more than once (1 repeated executions), 1 of them without a reason that the promise allows",
    ]


def test_a_check_that_does_not_apply_is_grey_skipped_and_info(tmp_path: Path) -> None:
    page = make_pages(tmp_path)
    assert '<span class="badge info">info</span>' in page
    skipped = [each.get("message") for each in ET.parse(tmp_path / "junit.xml").getroot().iter("skipped")]
    assert "the queue takes no advisory locks" in skipped
    assert "| advisory locks | advisory locks are released | info |" in (tmp_path / "summary.md").read_text()


@pytest.mark.parametrize(
    ("engine", "card"), [("postgres", "dead tuples, maximum"), ("mariadb", "history list length, maximum"), ("redis", None)]
)
def test_the_cards_show_old_row_versions_only_of_engines_that_keep_them(tmp_path: Path, engine: str, card: str | None) -> None:
    record = make_record()
    record["scenario"]["database"]["engine"] = engine
    labels = re.findall(r'<p class="label">(.*?)</p>', make_pages(tmp_path, record))
    assert [label for label in labels if label in ("dead tuples, maximum", "history list length, maximum")] == (
        [card] if card else []
    )


def test_the_summary_is_a_table_for_a_pull_request(tmp_path: Path) -> None:
    make_pages(tmp_path)
    summary = (tmp_path / "summary.md").read_text()
    assert summary.startswith("### No fault was injected. Nothing lost, nothing repeated. Passed: ")
    for row in (
        "| verdict | passed |",
        "| scenario | longtx |",
        "| date | 2027-01-15 08:00:00 UTC |",
        "| queue | que |",
        "| host | 2 x cpu, 1 GiB, Debian |",
    ):
        assert row in summary
    assert "| conservation | every job is accounted for | pass |" in summary
    assert "| | baseline | longtx | recovered |" in summary


def test_the_counts_of_a_fault_end_when_a_fault_begins_after_its_end(tmp_path: Path) -> None:
    during, after = ({**make_fault("longtx"), "name": name} for name in ("kill-1", "kill-2"))
    rows = [
        ["timeout-1", "fault", "timeout", "primary", "longtx", 10.0, 15.0],
        ["kill-1", "fault", "timeout", "primary", "longtx", 12.0, 12.0],
        ["kill-2", "fault", "timeout", "primary", "longtx", 20.0, 20.0],
    ]
    run = make_run(
        tmp_path,
        make_record(injections=[make_fault("longtx"), during, after]),
        injections=pd.DataFrame(rows, columns=EMPTY["injections"]),
        recoveries=pd.DataFrame(
            [["timeout-1", "longtx", 15.0, 0.25, 2.0, None, None, None, 0, 3, 4, 7]], columns=EMPTY["recoveries"]
        ),
    )
    assert "From its start to the start of kill-2: 3 jobs re-completed" in judge(run).attribution.sentence


@pytest.mark.parametrize(
    ("change", "missing"), [((None, None), "not in this run"), (("kill-1 began", 19.0), "not before kill-1 began")]
)
def test_a_fault_is_shown_with_the_recovery_after_it(tmp_path: Path, change: tuple[object, ...], missing: str) -> None:
    faults = pd.DataFrame([["timeout-1", "fault", "timeout", "primary", "longtx", 10.0, 15.0]], columns=EMPTY["injections"])
    recoveries = pd.DataFrame([["timeout-1", "longtx", 15.0, 0.25, 2.0, None, *change, 0, 3, 4, 7]], columns=EMPTY["recoveries"])
    run = make_run(tmp_path, make_record(injections=[make_fault("longtx")]), injections=faults, recoveries=recoveries)
    verdict = judge(run)
    assert (
        "timeout-1 was active on primary from 10 s to 15 s. Recovery, counted from its end: the next completion after 0.2 s, "
        f"the baseline's rate after 2.0 s, the empty backlog {missing}. "
        "From its start to the end of the run: 3 jobs re-completed, 4 repeated executions, 7 errors."
    ) in verdict.attribution.sentence
    make_report(run, verdict)
    assert f"| timeout-1 | primary | 10 | 15 | 0.25 | 2 | {missing} | 0 | 3 | 4 | 7 |" in (tmp_path / "summary.md").read_text()
    assert "Faults and recovery" in (tmp_path / "report.html").read_text()


def test_a_library_is_shown_with_its_version_its_options_in_force_its_completion_and_its_rescue(tmp_path: Path) -> None:
    record = make_record()
    library = {
        "title": "River",
        "version": "0.51.1",
        "language": "go",
        "completion": "the event job_completed",
        "rescue": "the leader",
        "settings": {"concurrency": 4, "poll_interval": 1.0, "rescue_interval": "each claim", "pool": "no limit"},
    }
    record["queue"] |= {"library": library, "options": {"concurrency": 4, "finish": "archive"}, "expiry_s": 3600.0}
    phases = {"baseline": 0.5, "longtx": 2.5}
    values = {(phase, "claim_statement_ms.mean"): mean_ms for phase, mean_ms in phases.items()}
    page = make_pages(tmp_path, record, {"phases": make_phases(values | {("longtx", "pickup_ms.p50"): 7.5})})
    text = re.sub(r"<[^>]+>", "", page[page.index("<dt>queue</dt>") :])
    assert 'Options: concurrency = 4, finish = "archive".' in text.replace("&#34;", '"')
    assert (
        "River 0.51.1 (go). A completion is the event job_completed. What gives the job of a dead worker to another one: the leader. "
        "In force in this run: after 3,600 s. "
        "In each worker process: concurrency 4, poll interval 1 s, rescue interval each claim, pool no limit."
    ) in text
    labels = re.findall(r'<p class="label">(.*?)</p>', page)
    assert labels == ["claim statement, time, mean", "pickup time p50", "dead tuples, maximum", "queue depth, maximum"]
    assert re.findall(r'<p class="between">(.*?)</p>', page)[1] == "baseline → longtx"
    assert "claim time p50, ms" not in page
    assert "pickup time p50, ms" in page


def test_a_run_on_a_server_whose_log_is_not_read_says_why_its_deadlocks_are_not_described(tmp_path: Path) -> None:
    samples = tmp_path / "samples"
    samples.mkdir()
    (samples / "deadlocks.csv").write_text("1,primary,server,deadlock_log_read,0\n")
    page = make_pages(tmp_path, tables={"phases": make_phases({("run", "deadlocks.count"): 3})})
    assert "The server counted 3 deadlocks" in page
    assert "The deadlocks of primary are not described here" in page


def test_the_deadlocks_of_a_postgresql_server_are_drawn(tmp_path: Path) -> None:
    log = (Path(__file__).parent / "postgres_log" / "postgres_15.txt").read_text()
    found = [
        Sample("primary", f"deadlock:{n}", "listing", each.to_sample_value())
        for n, each in enumerate(DeadlockLog().read(log.splitlines()))
    ]
    (tmp_path / "samples").mkdir()
    with SampleLog(tmp_path / "samples" / "deadlocks.csv") as samples:
        samples.write(1, [Sample("primary", "server", "deadlock_log_read", 1), *found])
    page = make_pages(tmp_path)
    assert "DELETE FROM jobs WHERE id = ?" in page
    assert page.count('<svg class="deadlock"') == 4
    assert "are not described here" not in page
