"""The runs of a search for a limit: when a rate is sustained, and what is recorded if the search is broken off. Nothing is started here."""

from __future__ import annotations

import errno
import json
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from stallbench.errors import NotCarriedOutError
from stallbench.leftovers import remove_leftovers
from stallbench.studies.limit.limit import find_limits
from stallbench.studies.limit.probes import PROBE, Horizon, Probe, judge_probe
from stallbench.studies.limit.record import LimitOutcome
from stallbench.studies.limit.slo import parse_slo
from tests.unit.made_up_limit import make_probe, plan
from tests.unit.made_up_run import PRIMARY, make_fault, make_phases, make_record, make_run


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


class TestSteps:
    """What is recorded while probes are carried out, which start nothing here."""

    def carry_out(self, monkeypatch: pytest.MonkeyPatch, runs: Path, error: BaseException) -> tuple[dict[str, Any], LimitOutcome]:
        """Let the third probe raise; returns what was on disk before, and the outcome."""
        seen: dict[str, Any] = {}
        done: list[float] = []

        def probe(search: Any, rate: float) -> Probe:
            if len(done) == 2:
                (file,) = runs.glob("*/limit.json")
                seen.update(json.loads(file.read_text()))
                raise error
            done.append(rate)
            return make_probe("free", rate)

        monkeypatch.setattr("stallbench.studies.limit.limit._Search._carry_out_one", probe)
        folder, outcome = find_limits(plan("longtx"), runs, lambda _: None)
        assert json.loads((folder / "limit.json").read_text())["status"] == outcome.status
        return seen, outcome

    @pytest.mark.parametrize(
        ("error", "status", "exit_code"),
        [(NotCarriedOutError("no server"), "failed", 3), (KeyboardInterrupt(), "aborted", 130)],
    )
    def test_what_was_found_before_a_probe_broke_off_is_kept(
        self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, error: BaseException, status: str, exit_code: int
    ) -> None:
        seen, outcome = self.carry_out(monkeypatch, tmp_path, error)
        assert seen["status"] == "running", "a bench that is killed now leaves a record that says so"
        assert [probe["rate"] for probe in seen["limits"][0]["probes"]] == [100, 150]
        assert (outcome.status, outcome.exit_code, outcome.limits[0].interval.low) == (status, exit_code, 150)
        assert outcome.reason == ("no server" if status == "failed" else "")

    def test_an_unforeseen_error_is_no_completed_search(self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
        with pytest.raises(KeyError, match="unforeseen"):
            self.carry_out(monkeypatch, tmp_path, KeyError("unforeseen"))
        (file,) = tmp_path.glob("*/limit.json")
        assert json.loads(file.read_text())["status"] == "failed"

    def test_a_full_disk_leaves_what_was_found_on_the_screen(self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
        def probe(search: Any, rate: float) -> Probe:
            if rate > 100:
                monkeypatch.setattr("stallbench.studies.limit.record.replace_file", fail)
            return make_probe("free", rate)

        def fail(path: Path, text: str) -> None:
            raise OSError(errno.ENOSPC, "No space left on device")

        monkeypatch.setattr("stallbench.studies.limit.limit._Search._carry_out_one", probe)
        folder, outcome = find_limits(plan("longtx"), tmp_path, lambda _: None)
        assert (outcome.status, outcome.exit_code, outcome.limits[0].interval.low) == ("failed", 3, 150)
        assert outcome.reason.endswith(f"{folder / 'limit.json'} could not be written: No space left on device")

    def test_the_folder_of_a_killed_search_is_marked_and_can_be_deleted(
        self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
    ) -> None:
        monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "nothing-else"))
        folder = tmp_path / "runs" / "20300101T000000Z-limit-longtx"
        run = folder / "20300101T000001Z-longtx"
        run.mkdir(parents=True)
        bench = {"version": "0", "pid": 1, "process_started_s": 1.0}
        dead = json.dumps(make_record(status="running", bench=bench))
        (run / "run.json").write_text(dead)
        searched = {"format": 1, "status": "running", "bench": bench, "scenario": "longtx", "limits": []}
        (folder / "limit.json").write_text(json.dumps(searched))
        (tmp_path / "runs" / "notes" / "kept").mkdir(parents=True)
        (tmp_path / "runs" / "notes" / "kept" / "run.json").write_text(dead)
        assert remove_leftovers(tmp_path / "runs") == [
            f"{folder.name}/{run.name}: marked as aborted",
            f"{folder.name}: marked as aborted",
        ]
        assert json.loads((folder / "limit.json").read_text())["status"] == "aborted"
        assert remove_leftovers(tmp_path / "runs", delete_runs=True) == [f"{folder.name}: deleted"]
        assert [path.name for path in (tmp_path / "runs").iterdir()] == ["notes"]
