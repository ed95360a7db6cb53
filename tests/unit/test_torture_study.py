"""What a torture keeps of its runs, and how it is continued and shown: with fake runs that start nothing."""

from __future__ import annotations

import errno
import html
import xml.etree.ElementTree as ET
from pathlib import Path

import pandas as pd
import pytest

from stallbench.commands.endings import conclude_study_and_exit
from stallbench.errors import BadInputError, NotCarriedOutError
from stallbench.queues.crash_points import CrashPoint
from stallbench.records.injections import JOBS
from stallbench.run.folder import find_study_folder
from stallbench.run.view import RunView
from stallbench.scenario.model import Scenario
from stallbench.studies import study
from stallbench.studies.kind import read_kind
from stallbench.studies.torture.outcome import PROMISES
from stallbench.studies.torture.plan import TorturePlan, plan_torture
from stallbench.studies.torture.torture import carry_out_torture, continue_torture
from stallbench.verdicts import Verdict
from stallbench.verdicts.attribution import Attribution
from stallbench.verdicts.check import Finding
from tests.unit.fake_runner import FakeRunner, raise_at
from tests.unit.made_up_run import make_fault, make_record, make_run

POINT = CrashPoint.AFTER_CLAIM


def make_tortured_run(folder: Path, scenario: Scenario, number: int) -> Verdict:
    """Write a run in which two processes were hit at the point, and return its verdict: one check was not applied, another found nothing."""
    hit = make_fault(str(POINT)) | {"kind": "crash_point", "evidence": {JOBS: [1, 2]}}
    jobs = pd.DataFrame([{"job_id": 1, "state": "completed", "held_after_completion": False}])
    record = make_record(id=folder.name, scenario=scenario.model_dump(mode="json"), injections=[hit])
    make_run(folder, record, jobs=jobs)
    results = dict.fromkeys(PROMISES, "pass") | {"order": "info"}
    findings = [Finding(check=check, subject=check, result=result, reason="") for check, result in results.items()]  # type: ignore[arg-type]
    if number == 2:
        findings.append(Finding(check="processes", subject="any", result="fail", reason="worker-1 exited"))
    attribution = Attribution(sentence="", holders=(), trend=None)
    return Verdict(
        run=folder.name, status="completed", verdict="pass", reason="", attribution=attribution, findings=tuple(findings)
    )


@pytest.fixture
def fake() -> FakeRunner:
    return FakeRunner(make_tortured_run, is_latest=False)


@pytest.fixture
def plan() -> TorturePlan:
    return plan_torture("skip_locked", seed=1, overrides=("workers.count=2",), points=(POINT,), action=None)


def test_the_record_has_the_plan_and_what_each_run_has_shown(fake: FakeRunner, plan: TorturePlan, tmp_path: Path) -> None:
    folder, record = carry_out_torture(plan, tmp_path, RunView(), fake)
    assert folder.read() == record, "nothing is lost in the file"
    assert record.plan == plan
    assert [scenario.phases[1].name for scenario in fake.scenarios] == [POINT, POINT]
    assert [(each.trial.action, each.hits, each.states["order"]) for each in record.outcome.trials] == [
        ("kill", 2, "not promised"),
        ("pause", 2, "not promised"),
    ]
    assert (list(map(str, record.outcome.elsewhere)), record.verdict, record.exit_code) == (
        ["processes: worker-1 exited"],
        "fail",
        1,
    )
    assert sorted(path.name for path in folder.path.glob("*.toml")) == ["kill.toml", "pause.toml"]


@pytest.mark.parametrize(
    ("error", "status", "exit_code"), [(NotCarriedOutError("no server"), "failed", 3), (KeyboardInterrupt(), "aborted", 130)]
)
def test_a_torture_that_ended_early_keeps_its_runs_and_is_continued(
    fake: FakeRunner, plan: TorturePlan, tmp_path: Path, error: BaseException, status: str, exit_code: int
) -> None:
    fake.before_run = raise_at(2, error)
    folder, record = carry_out_torture(plan, tmp_path, RunView(), fake)
    assert (record.status, record.exit_code) == (status, exit_code)
    assert [run.status for run in record.runs] == ["completed", status]
    fake.before_run = lambda _: None
    continued = continue_torture(folder, RunView(), fake)
    assert [run.status for run in continued.runs] == ["completed", "completed"]
    assert continued.runs[0] == record.runs[0], "it is not repeated"
    assert [each.trial.action for each in continued.outcome.trials] == ["kill", "pause"]
    with pytest.raises(BadInputError, match="is complete; there is nothing to continue"):
        continue_torture(folder, RunView(), fake)


def test_the_page_the_junit_file_and_the_terminal_show_it(
    fake: FakeRunner, plan: TorturePlan, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder, _ = carry_out_torture(plan, tmp_path, RunView(), fake)
    assert find_study_folder(folder.path.name, tmp_path) == folder.path
    with pytest.raises(SystemExit) as ended:
        conclude_study_and_exit(folder.path)
    assert ended.value.code == 1
    command = f"stallbench torture skip_locked --set workers.count=2 --seed 1 --point {POINT}"
    for text in ((folder.path / "report.html").read_text(), (folder.path / "summary.md").read_text()):
        assert command in text.replace("\\", "")
        assert "worker-1 exited" in text
        assert "broke 1 promise: nothing else goes wrong (processes: worker-1 exited)." in html.unescape(text.replace("\\", ""))
    assert "at no known point: processes: worker-1 exited" in capsys.readouterr().out
    cases = list(ET.parse(folder.path / "junit.xml").iter("testcase"))
    assert len(cases) == 1 + 2 * len(PROMISES) + 1
    failed = [case.get("classname") for case in cases if case.find("failure") is not None]
    assert failed == [f"{folder.path.name}.verdict", "torture.skip_locked.elsewhere"]
    assert sum(case.find("skipped") is not None for case in cases) == 2, "no order is promised"


def test_on_a_full_disk_what_was_found_is_printed(
    fake: FakeRunner, plan: TorturePlan, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(path: Path, text: str) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    fake.before_run = lambda number: monkeypatch.setattr(study, "replace_file", fail) if number == 2 else None
    folder, record = carry_out_torture(plan, tmp_path, RunView(), fake)
    with pytest.raises(SystemExit) as ended:
        conclude_study_and_exit(folder.path, record)
    said = capsys.readouterr()
    assert ended.value.code == 3
    assert f"{POINT}" in said.out
    assert "2 of 2 runs are done" in " ".join(said.out.split())
    assert "the report could not be written: No space left on device; write it later by: stallbench report" in said.err


def test_a_run_that_was_not_carried_out_is_unknown_in_the_junit_file(fake: FakeRunner, plan: TorturePlan, tmp_path: Path) -> None:
    fake.before_run = raise_at(2, NotCarriedOutError("no server"))
    folder, _ = carry_out_torture(plan, tmp_path, RunView(), fake)
    read_kind(folder.path).conclude(folder.path).write()
    errors = [case for case in ET.parse(folder.path / "junit.xml").iter("testcase") if case.find("error") is not None]
    assert [case.get("name") for case in errors] == ["what the study shows", "the run is carried out"]
    assert "The torture is not complete: no server. --continue continues it." in (folder.path / "report.html").read_text()


def test_a_torture_has_no_figures_for_a_baseline(fake: FakeRunner, plan: TorturePlan, tmp_path: Path) -> None:
    folder, _ = carry_out_torture(plan, tmp_path, RunView(), fake)
    with pytest.raises(BadInputError, match="a torture has no figures to compare"):
        read_kind(folder.path).read_baselines(folder.path)
