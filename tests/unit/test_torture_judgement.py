"""What one run says of its crash points: which findings break a promise, and which leave it undecided."""

from __future__ import annotations

from io import StringIO
from pathlib import Path
from typing import Any, Literal

import pandas as pd
import pytest
from rich.console import Console

from stallbench.run.folder import RunFolder
from stallbench.run.record import describe_bench, read_record
from stallbench.studies.torture.job_histories import JobHistories
from stallbench.studies.torture.judgement import judge_run
from stallbench.studies.torture.outcome import PROMISES, TortureOutcome
from stallbench.studies.torture.plan import plan_torture
from stallbench.studies.torture.record import TortureRecord, TortureRun
from stallbench.studies.torture.screen import print_torture
from stallbench.verdicts import Verdict
from stallbench.verdicts.attribution import Attribution
from stallbench.verdicts.check import Finding
from tests.unit.made_up_run import make_fault, make_record, make_run


def judge_with(folder: Path, check: str, result: Literal["fail", "unknown"], reason: str, **record: Any) -> TortureOutcome:
    """Judge a sound run in which one check found something; ``record`` changes its ``run.json``."""
    of_check = Finding(check=check, subject="any", result=result, reason=reason)
    others = [Finding(check=each, subject="any", result="pass", reason="") for each in PROMISES if each != check]
    attribution = Attribution(sentence="", holders=(), trend=None)
    verdict = Verdict(
        run="r", status="completed", verdict=result, reason="", attribution=attribution, findings=(of_check, *others)
    )
    (folder / "run").mkdir()
    jobs = pd.DataFrame([{"job_id": 1, "state": "completed", "held_after_completion": False}])
    return judge_run(make_run(folder / "run", make_record(**record), jobs=jobs), verdict, [])


def make_torture_record(outcome: TortureOutcome) -> TortureRecord:
    plan = plan_torture("skip_locked", seed=1, overrides=(), points=(), action=None)
    runs = (TortureRun(number=1, status="completed", outcome=outcome),)
    return TortureRecord(id="torture", bench=describe_bench(), status="completed", plan=plan, runs=runs)


@pytest.mark.parametrize(("check", "named"), [("left behind", "nothing left behind: why"), ("processes", "processes: why")])
def test_an_unknown_finding_breaks_no_promise(tmp_path: Path, check: str, named: str) -> None:
    outcome = judge_with(tmp_path, check, "unknown", "why")
    assert (outcome.elsewhere, outcome.undecided) == ([], [named])
    assert outcome.verdict == "unknown"
    console = Console(file=StringIO(), width=140)
    print_torture(make_torture_record(outcome), "report.html", console)
    printed = console.file.getvalue()  # type: ignore[attr-defined]
    assert f"could not be judged: {named}" in printed
    assert "UNKNOWN" in printed
    assert "broken" not in printed


def test_a_failure_that_belongs_to_no_point_breaks_one(tmp_path: Path) -> None:
    outcome = judge_with(tmp_path, "processes", "fail", "worker-1 exited")
    assert (outcome.elsewhere, outcome.undecided) == (["processes: worker-1 exited"], [])
    assert outcome.verdict == "fail"


def test_the_schedule_is_not_a_promise_of_the_queue(tmp_path: Path) -> None:
    outcome = judge_with(tmp_path, "schedule", "unknown", "the load was late")
    assert outcome.verdict == "pass"


@pytest.mark.parametrize("evidence", [{}, {"killed": ["worker-1"]}], ids=["a network fault", "a kill"])
def test_a_fault_that_the_user_has_added_to_another_phase_is_no_trial(tmp_path: Path, evidence: dict[str, Any]) -> None:
    """As by ``--set 'phases.settling.faults=[{kind="latency"}]'``."""
    outcome = judge_with(tmp_path, "errors", "fail", "why", injections=[make_fault("recovered") | {"evidence": evidence}])
    assert (outcome.trials, outcome.elsewhere) == ([], ["no errors: why"])
    folder = RunFolder(tmp_path / "run")
    (folder.events).mkdir(exist_ok=True)
    (folder.events / "worker-1.csv").write_text("1,1,worker-1,claimed,7,1,,5,\n")
    assert JobHistories(folder, read_record(folder.record)).describe(7) == "job 7: worker-1 claimed"
