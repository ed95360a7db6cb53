"""What one run says of its crash points: which findings break a promise, and which leave it undecided."""

from __future__ import annotations

from io import StringIO
from pathlib import Path
from typing import Any, Literal

import pandas as pd
import pytest
from rich.console import Console

from stallbench.queues.crash_points import CrashPoint
from stallbench.run.folder import RunFolder
from stallbench.run.record import describe_bench, read_record
from stallbench.studies.torture.job_histories import JobHistories
from stallbench.studies.torture.judgement import judge_run
from stallbench.studies.torture.outcome import PROMISES, TortureOutcome
from stallbench.studies.torture.plan import Trial, plan_torture
from stallbench.studies.torture.record import TortureRecord, TortureRun
from stallbench.studies.torture.screen import print_torture
from stallbench.verdicts import Verdict
from stallbench.verdicts.attribution import Attribution
from stallbench.verdicts.check import Finding
from tests.unit.made_up_run import make_fault, make_process, make_record, make_run


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
    assert (outcome.elsewhere, list(map(str, outcome.undecided))) == ([], [named])
    assert outcome.verdict == "unknown"
    console = Console(file=StringIO(), width=140)
    print_torture(make_torture_record(outcome), "report.html", console)
    printed = console.file.getvalue()  # type: ignore[attr-defined]
    assert f"could not be judged: {named}" in printed
    assert "Unknown: " in printed
    assert "broken" not in printed


def test_a_failure_that_belongs_to_no_point_breaks_one(tmp_path: Path) -> None:
    outcome = judge_with(tmp_path, "processes", "fail", "worker-1 exited")
    assert (list(map(str, outcome.elsewhere)), outcome.undecided) == (["processes: worker-1 exited"], [])
    assert outcome.verdict == "fail"


def test_the_schedule_is_not_a_promise_of_the_queue(tmp_path: Path) -> None:
    outcome = judge_with(tmp_path, "schedule", "unknown", "the load was late")
    assert (outcome.elsewhere, outcome.undecided) == ([], [])
    assert outcome.verdict == "unknown", "no point was tried"


@pytest.mark.parametrize("evidence", [{}, {"killed": ["worker-1"]}], ids=["a network fault", "a kill"])
def test_a_fault_that_the_user_has_added_to_another_phase_is_no_trial(tmp_path: Path, evidence: dict[str, Any]) -> None:
    """As by ``--set 'phases.settling.faults=[{kind="latency"}]'``."""
    outcome = judge_with(tmp_path, "errors", "fail", "why", injections=[make_fault("recovered") | {"evidence": evidence}])
    assert (outcome.trials, list(map(str, outcome.elsewhere))) == ([], ["no errors: why"])
    folder = RunFolder(tmp_path / "run")
    (folder.events).mkdir(exist_ok=True)
    (folder.events / "worker-1.csv").write_text("1,1,worker-1,claimed,7,1,,5,\n")
    assert JobHistories(folder, read_record(folder.record)).describe(7) == "job 7: worker-1 claimed (attempt 1)"


KILLED_AT = Trial(CrashPoint.BEFORE_COMPLETION, "kill")
OTHER_POINT = Trial(CrashPoint.AFTER_CLAIM, "kill")


def judge_kills(folder: Path, *findings: Finding, killed: dict[str, int | None], **tables: pd.DataFrame) -> TortureOutcome:
    """Judge a run in which workers were killed at two points, with the job that each had; what is not among ``findings`` passes.

    worker-1 has recorded two attempts at job 7 and is alive; jobs 7 and 8 are in the final snapshot.
    """
    faults = [
        make_fault(str(trial.point))
        | {"name": str(trial.point), "kind": "crash_point", "options": {"at": str(trial.point), "action": "kill"}}
        | {
            "evidence": {
                "killed": [*killed] if trial is KILLED_AT else ["worker-9"],
                "jobs": [*killed.values()] if trial is KILLED_AT else [99],
            }
        }
        for trial in (OTHER_POINT, KILLED_AT)
    ]
    dead = [make_process(name, exit_code=-9, intended="killed") for name in (*killed, "worker-9")]
    record = make_record(injections=faults, processes=[make_process("worker-1"), *dead])
    record["queue"]["ordered"] = False
    given = {each.check for each in findings}
    others = [Finding(check=each, subject="any", result="pass", reason="") for each in PROMISES if each not in given]
    attribution = Attribution(sentence="", holders=(), trend=None)
    verdict = Verdict(
        run="r", status="completed", verdict="fail", reason="", attribution=attribution, findings=(*findings, *others)
    )
    (folder / "events").mkdir()
    (folder / "events" / "worker-1.csv").write_text(
        "1,1,worker-1,claimed,7,1,,5,\n2,2,worker-1,failed,7,1,,5,\n3,3,worker-1,claimed,7,2,,5,\n"
    )
    (folder / "final_snapshot.csv").write_text("7,claimed\n8,queued\nend,2\n")
    jobs = pd.DataFrame([{"job_id": 7, "state": "lost", "held_after_completion": False}])
    return judge_run(make_run(folder, record, **{"jobs": jobs, **tables}), verdict, [OTHER_POINT, KILLED_AT])


def a_failure(check: str) -> Finding:
    return Finding(check=check, subject="any", result="fail", reason="why")


def test_a_point_is_blamed_if_a_process_died_there_with_the_job(tmp_path: Path) -> None:
    outcome = judge_kills(tmp_path, a_failure("conservation"), killed={"worker-2": 7})
    other, blamed = outcome.trials
    assert (other.state_of("conservation"), blamed.state_of("conservation"), outcome.elsewhere) == ("holds", "broken", [])
    history = "worker-1 claimed (attempt 1), worker-1 failed, worker-1 claimed (attempt 2), still claimed"
    assert list(map(str, blamed.reasons)) == [f"nothing lost: 1 jobs; job 7: {history}; worker-2 died at before_completion"]


def test_no_point_is_blamed_for_a_job_that_no_dead_process_had_and_no_point_is_said_to_hold(tmp_path: Path) -> None:
    outcome = judge_kills(tmp_path, a_failure("conservation"), killed={"worker-2": 3})
    assert {each.state_of("conservation") for each in outcome.trials} == {"unknown"}
    (elsewhere,) = outcome.elsewhere
    assert str(elsewhere).startswith("nothing lost: 1 jobs; job 7: ")
    console = Console(file=StringIO(), width=140)
    print_torture(make_torture_record(outcome), "report.html", console)
    assert "repeat, with all points: stallbench torture skip_locked" in console.file.getvalue()  # type: ignore[attr-defined]


def test_the_number_of_jobs_is_not_that_of_the_examples(tmp_path: Path) -> None:
    never = pd.DataFrame([{"kind": "never_claimed", "jobs": 522, "examples": [8], "longest_s": 9.0}])
    outcome = judge_kills(tmp_path, a_failure("starvation"), killed={"worker-2": 3}, overdue=never)
    assert list(map(str, outcome.elsewhere)) == [
        "nothing starved: 1 of the first 20 of 522 jobs; job 8: no process recorded it, never claimed, still queued"
    ]


def test_where_no_worker_died_with_a_job_nothing_is_known_of_such_jobs(tmp_path: Path) -> None:
    info = Finding(check="left behind", subject="any", result="info", reason="no worker is known to have had a job when it died")
    outcome = judge_kills(tmp_path, info, killed={"worker-2": None}, jobs=pd.DataFrame(columns=["job_id", "state"]))
    assert {each.state_of("left behind") for each in outcome.trials} == {"not promised"}
