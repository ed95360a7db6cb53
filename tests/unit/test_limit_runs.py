"""The runs of a search for a limit: when a rate is sustained, and what is recorded if the search is broken off. Nothing is started here."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ET
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from stallbench.errors import BadInputError, NotCarriedOutError
from stallbench.leftovers import remove_leftovers
from stallbench.run.record import BenchRecord
from stallbench.scenario.model import Scenario
from stallbench.studies.limit.kind import KIND
from stallbench.studies.limit.limit import continue_search, find_limits
from stallbench.studies.limit.probes import PROBE, Horizon, Probe, judge_probe
from stallbench.studies.limit.record import LimitFolder, LimitRecord
from stallbench.studies.limit.slo import parse_slo
from tests.unit.fake_runner import FakeRunner, raise_at
from tests.unit.made_up_limit import make_probe_run, plan
from tests.unit.made_up_run import PRIMARY, make_fault, make_phases, make_record, make_run

pytestmark = pytest.mark.slow


class TestJudgement:
    """Of a probe of 100 jobs/s in which latency and load are good."""

    def judge(
        self,
        folder: Path,
        *,
        lost: float | None = 0,
        depth: float | None = 1,
        sampled_s: int = 20,
        horizon: Horizon = "free",
        **record: Any,
    ) -> Probe:
        phases = make_record()["phases"][:1]
        values = {(PROBE, "latency_ms.p95"): 20.0, (PROBE, "completed.rate"): 100.0, (PROBE, "enqueued.rate"): 100.0}
        values |= {} if lost is None else {("run", "lost.count"): lost}
        windows = pd.DataFrame({"t_s": range(20), "phase": PROBE, "depth": pd.Series([depth] * 20, dtype="float64")})
        windows.loc[windows["t_s"] >= sampled_s, "depth"] = None
        ran = make_record(phases=[phases[0] | {"name": PROBE}], servers=[PRIMARY], **record)
        folder.mkdir(exist_ok=True)
        run = make_run(folder, ran, phases=make_phases(values), windows=windows)
        return judge_probe(run, parse_slo("latency_ms.p95 < 1s"), horizon)

    def test_it_is_sustained(self, tmp_path: Path) -> None:
        probe = self.judge(tmp_path)
        assert (probe.is_sustained, probe.reason) == (True, "")

    @pytest.mark.parametrize(
        ("lost", "depth", "reason"),
        [
            pytest.param(3, 1, "3 jobs were lost", id="a queue that drops jobs is quick"),
            pytest.param(None, 1, "it is unknown whether jobs were lost", id="no final snapshot"),
            pytest.param(0, None, "the depth of the queue was not sampled", id="no samples"),
            pytest.param(0, 500, "saturated after 0 s", id="too many wait"),
        ],
    )
    def test_what_is_wrong_or_unknown_is_not_sustained(
        self, tmp_path: Path, lost: float | None, depth: float | None, reason: str
    ) -> None:
        probe = self.judge(tmp_path, lost=lost, depth=depth)
        assert (probe.is_sustained, probe.reason) == (False, reason)

    def test_the_depth_at_the_end_counts_not_the_last_one_that_was_sampled(self, tmp_path: Path) -> None:
        """The count of a stalled queue may itself not return; until then the queue kept up."""
        probe = self.judge(tmp_path / "stalled", sampled_s=12)
        assert (probe.is_sustained, probe.reason) == (False, "the depth of the queue was not sampled in the last 8 s")
        assert self.judge(tmp_path / "late", sampled_s=18).is_sustained, "a sample may be late on a busy machine"

    def test_a_horizon_that_was_not_held_to_the_end_gives_no_limit(self, tmp_path: Path) -> None:
        longrunner = make_fault(PROBE) | {"name": "idle_writer-1", "category": "longrunner", "kind": "idle_writer"}
        assert self.judge(tmp_path / "held", horizon="held", injections=[longrunner]).is_sustained
        lapsed = longrunner | {"active_to_end": False, "why_ended": "its session is gone"}
        with pytest.raises(
            NotCarriedOutError, match=r"the horizon was not held: .* was not active until its end: its session is gone"
        ):
            self.judge(tmp_path / "lapsed", horizon="held", injections=[lapsed])


class TestSearch:
    """What is recorded of a search whose runs start nothing: rates up to 160 are sustained."""

    @pytest.fixture
    def fake(self) -> FakeRunner:
        return FakeRunner(make_probe_run(lambda rate, _: rate <= 160), is_latest=False)

    def test_the_record_has_each_probe_and_what_follows_from_them(self, fake: FakeRunner, tmp_path: Path) -> None:
        asked = plan("longtx", horizon="free")
        folder, record = find_limits(asked, tmp_path, lambda _: None, fake)
        assert folder.read() == record, "nothing is lost in the file"
        assert record.plan == asked
        assert [run.rate for run in record.runs] == [100, 150, 225, 184, 166, 158, 158, 166], (
            "a ramp, a bisection, both ends again"
        )
        (limit,) = record.find_limits()
        assert limit.is_complete
        assert (limit.interval.low, limit.interval.high) == (158, 166)
        assert (record.status, record.exit_code, record.capacity) == ("completed", 0, None)
        assert {path.name for path in folder.path.iterdir()} == {"study.json", *(str(run.folder) for run in record.runs)}

    def test_without_a_first_rate_the_capacity_is_measured(self, fake: FakeRunner, tmp_path: Path) -> None:
        fake.measure = lambda _: 240.0
        _, record = find_limits(replace(plan("longtx"), start_rate=None), tmp_path, lambda _: None, fake)
        assert (record.capacity, record.starts) == (240, {"free": 120, "held": 120})
        assert [limit.horizon for limit in record.find_limits()] == ["free", "held"]

    @pytest.mark.parametrize(
        ("error", "status", "reason", "exit_code"),
        [(NotCarriedOutError("no server"), "failed", "no server", 3), (KeyboardInterrupt(), "aborted", "interrupted", 130)],
    )
    def test_a_capacity_that_cannot_be_measured_ends_the_search(
        self, fake: FakeRunner, tmp_path: Path, error: BaseException, status: str, reason: str, exit_code: int
    ) -> None:
        def fail(_: Scenario) -> float:
            raise error

        fake.measure = fail
        folder, record = find_limits(replace(plan("longtx"), start_rate=None), tmp_path, lambda _: None, fake)
        assert folder.read() == record
        assert (record.status, record.reason, record.exit_code, record.find_limits()) == (status, reason, exit_code, [])

    @pytest.mark.parametrize("error", [NotCarriedOutError("no server"), KeyboardInterrupt()])
    def test_what_was_found_before_a_probe_broke_off_is_kept_and_the_search_is_continued(
        self, fake: FakeRunner, tmp_path: Path, error: BaseException
    ) -> None:
        fake.before_run = raise_at(3, error)
        folder, record = find_limits(plan("longtx", horizon="free"), tmp_path, lambda _: None, fake)
        (limit,) = record.find_limits()
        assert ([probe.rate for probe in limit.probes], limit.interval.low, limit.is_complete) == ([100, 150], 150, False)
        fake.before_run = lambda _: None
        continued = continue_search(folder, 600, lambda _: None, fake)
        assert continued.runs[:2] == record.runs[:2], "these are not repeated"
        assert [run.rate for run in continued.runs[2:4]] == [225, 225]
        assert (continued.status, continued.exit_code) == ("completed", 0)
        with pytest.raises(BadInputError, match="is complete; there is nothing to continue"):
            continue_search(folder, 600, lambda _: None, fake)

    def test_a_search_whose_time_ended_is_continued_with_more_time(self, fake: FakeRunner, tmp_path: Path) -> None:
        asked = plan("longtx", horizon="free")
        folder, record = find_limits(replace(asked, within_s=1), tmp_path, lambda _: None, fake)
        assert (record.status, record.exit_code, record.runs) == ("completed", 1, ())
        continued = continue_search(folder, 600, lambda _: None, fake)
        assert continued.plan.within_s == 600
        assert continued.find_limits()[0].is_complete
        assert continued.exit_code == 0

    def test_the_page_and_the_junit_file_show_it(self, fake: FakeRunner, tmp_path: Path) -> None:
        folder, _ = find_limits(plan("longtx", horizon="free"), tmp_path, lambda _: None, fake)
        conclusion = KIND.conclude(folder.path)
        conclusion.write()
        record = conclusion.record
        assert isinstance(record, LimitRecord)
        assert [(limit["horizon"], limit["interval"]) for limit in record.limits] == [("free", {"low": 158.0, "high": 166.0})]
        for text in ((folder.path / "report.html").read_text(), (folder.path / "summary.md").read_text()):
            assert "With the horizon free the limit is between 158 and 166 jobs/s" in text
            assert "saturated after 0 s" in text
            assert "stallbench limit longtx --slo " in text
        verdict, case = ET.parse(folder.path / "junit.xml").iter("testcase")
        assert (verdict.get("name"), list(verdict)) == ("what the study shows", [])
        assert (case.get("name"), list(case)) == ("the limit with the horizon free has a lower and an upper end", [])


def test_the_folder_of_a_killed_search_is_marked_and_can_be_deleted(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "nothing-else"))
    folder = tmp_path / "runs" / "20300101T000000Z-limit-longtx"
    run = folder / "20300101T000001Z-longtx"
    run.mkdir(parents=True)
    bench = BenchRecord(version="0", pid=1, process_started_s=1.0)
    dead = json.dumps(make_record(status="running", bench=bench.model_dump()))
    (run / "run.json").write_text(dead)
    LimitFolder(folder).write(LimitRecord(id=folder.name, bench=bench, plan=plan("longtx")))
    (tmp_path / "runs" / "notes" / "kept").mkdir(parents=True)
    (tmp_path / "runs" / "notes" / "kept" / "run.json").write_text(dead)
    assert remove_leftovers(tmp_path / "runs") == [
        f"{folder.name}/{run.name}: marked as aborted",
        f"{folder.name}: marked as aborted",
    ]
    assert LimitFolder(folder).read().status == "aborted"
    assert remove_leftovers(tmp_path / "runs", delete_runs=True) == [f"{folder.name}: deleted"]
    assert [path.name for path in (tmp_path / "runs").iterdir()] == ["notes"]
