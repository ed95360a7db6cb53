"""The outcome of a torture becomes one line for each promise: its worst result, and where that was."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from collections.abc import Callable
from pathlib import Path

import pandas as pd
import pytest
from typer.testing import CliRunner

from stallbench.cli import app
from stallbench.errors import BadInputError, NotCarriedOutError
from stallbench.queues import find_queue
from stallbench.queues.crash_points import CrashPoint
from stallbench.records.injections import JOBS
from stallbench.run.record import describe_bench
from stallbench.run.view import RunView
from stallbench.scenario.model import Scenario
from stallbench.studies.conformance.conformance import carry_out_conformance, continue_conformance
from stallbench.studies.conformance.kind import KIND
from stallbench.studies.conformance.promise_outcome import (
    PromiseOutcome,
    describe_promise,
    summarise_torture,
)
from stallbench.studies.conformance.promises import PROMISES as OPERATIONS
from stallbench.studies.conformance.record import ConformanceFolder, ConformanceRecord
from stallbench.studies.conformance.worker_deaths import read_worker_deaths, summarise_verdict
from stallbench.studies.torture.outcome import NOT_TRIED, PROMISES, Reason, State, TortureOutcome, TrialOutcome
from stallbench.studies.torture.plan import Trial, plan_torture
from stallbench.verdicts import Verdict
from stallbench.verdicts.attribution import Attribution
from stallbench.verdicts.check import Finding, Result
from tests.unit.fake_runner import FakeRunner, raise_at
from tests.unit.made_up_run import make_fault, make_record, make_run

AFTER = Trial(CrashPoint.AFTER_CLAIM, "kill")
DURING = Trial(CrashPoint.DURING_WORK, "pause")


def an_outcome(trial: Trial, **states: State) -> TrialOutcome:
    given = {check.replace(" ", "_"): check for check in PROMISES}
    return TrialOutcome(
        trial=trial, hits=2, states={**dict.fromkeys(PROMISES, "holds"), **{given[k]: v for k, v in states.items()}}
    )


def summarised(
    *trials: TrialOutcome, elsewhere: tuple[Reason, ...] = (), undecided: tuple[Reason, ...] = ()
) -> dict[str, PromiseOutcome]:
    found = summarise_torture(TortureOutcome(trials=list(trials), elsewhere=list(elsewhere), undecided=list(undecided)))
    return {each.name.removesuffix(", at every crash point"): each for each in found}


@pytest.mark.parametrize("place", [".", "nowhere/conformance.xml"])
def test_a_junit_file_that_cannot_be_written_is_refused_before_anything_is_tried(place: str, tmp_path: Path) -> None:
    ended = CliRunner().invoke(
        app, ["conform", "skip_locked", "--junit", str(tmp_path / place), "--runs", str(tmp_path / "runs")]
    )
    assert isinstance(ended.exception, BadInputError)
    assert "no file can be written there" in str(ended.exception)
    assert not (tmp_path / "runs").exists()


def test_a_promise_that_holds_everywhere_passes() -> None:
    found = summarised(an_outcome(AFTER), an_outcome(DURING))
    assert {each.result for each in found.values()} == {"pass"}
    assert found["nothing lost"].reason == "at 2 points"


def test_a_promise_that_is_broken_somewhere_fails_and_names_the_point() -> None:
    broken = an_outcome(DURING)
    broken.mark_broken("duplicates", "1 jobs; job 58: ...")
    found = summarised(an_outcome(AFTER), broken)
    assert found["nothing repeated"].result == "fail"
    assert found["nothing repeated"].reason == "during_work (pause); nothing repeated: 1 jobs; job 58: ..."
    assert found["nothing lost"].result == "pass"


def test_a_point_that_was_not_tried_makes_its_promises_unknown_and_nothing_hides_that() -> None:
    not_tried = TrialOutcome(
        trial=AFTER, states=dict.fromkeys(PROMISES, "unknown"), reasons=[Reason(check=NOT_TRIED, text="nobody came by")]
    )
    found = summarised(not_tried, an_outcome(DURING))
    assert {each.result for each in found.values()} == {"unknown"}
    assert found["in order"].reason == "after_claim (kill); not tried: nobody came by"


def test_what_a_run_cannot_decide_is_unknown_with_its_reason_and_not_broken() -> None:
    """River rescues the job of a dead worker after an hour, which is after the end of the run."""
    rescued_later = Reason(check="left behind", text="455 jobs of dead workers are still claimed")
    found = summarised(an_outcome(AFTER, left_behind="unknown"), undecided=(rescued_later,))
    assert found["nothing left behind"].result == "unknown"
    assert (
        found["nothing left behind"].reason
        == "after_claim (kill); nothing left behind: 455 jobs of dead workers are still claimed"
    )
    assert "nothing else is wrong" not in found
    found = summarised(an_outcome(AFTER), undecided=(Reason(check="clocks", text="the clocks were not compared"),))
    assert (found["nothing else is wrong"].result, found["nothing lost"].result) == ("unknown", "pass")


def make_run_of(hits: Callable[[CrashPoint, int], int]) -> Callable[[Path, Scenario, int], Verdict]:
    """Return what makes runs without a finding, in which as many processes as ``hits`` says were hit at each point."""

    def make(folder: Path, scenario: Scenario, number: int) -> Verdict:
        faults = [
            make_fault(phase.name)
            | {"kind": "crash_point", "evidence": {JOBS: list(range(hits(CrashPoint(phase.name), number)))}}
            for phase in scenario.phases
            if phase.name in set(CrashPoint)
        ]
        jobs = pd.DataFrame([{"job_id": 1, "state": "completed", "held_after_completion": False}])
        make_run(folder, make_record(id=folder.name, scenario=scenario.model_dump(mode="json"), injections=faults), jobs=jobs)
        return a_verdict()

    return make


def always_hit(point: CrashPoint, number: int) -> int:
    return 2


@pytest.fixture
def only_runs(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Instead of the operations, which need a server, there is one promise; the list has the names of those that were tried before."""
    tried_before: list[str] = []

    def try_operations(scenario: Scenario, logs: Path, *, tried: list[str]) -> list[PromiseOutcome]:
        tried_before.extend(tried)
        return [] if tried else [PromiseOutcome(name="ids ascend", result="pass")]

    monkeypatch.setattr("stallbench.studies.conformance.conformance.try_operations", try_operations)
    return tried_before


@pytest.mark.usefixtures("only_runs")
def test_a_point_that_was_not_tried_is_tried_again_alone_and_for_a_limited_number_of_times(tmp_path: Path) -> None:
    plan = plan_torture("skip_locked", seed=1, overrides=(), points=(AFTER.point, DURING.point), action=None)
    never, late = Trial(AFTER.point, "pause"), AFTER

    def hits(point: CrashPoint, number: int) -> int:
        return 2 if point is DURING.point or number == 3 else 0

    fake = FakeRunner(make_run_of(hits), is_latest=False)
    _, record = carry_out_conformance(plan, tmp_path, RunView(), with_crash_points=True, runner=fake)
    assert [run.trials for run in record.runs] == [*plan.runs, (late,), (never,), (never,)]
    assert [each.trial for each in record.outcome.trials] == plan.trials
    assert {each.trial: each.hits for each in record.outcome.trials if each.trial.point is AFTER.point} == {late: 2, never: 0}
    assert (record.verdict, record.exit_code) == ("unknown", 1)


@pytest.mark.parametrize(
    ("error", "status", "exit_code"), [(NotCarriedOutError("no server"), "failed", 3), (KeyboardInterrupt(), "aborted", 130)]
)
def test_a_test_that_ended_early_says_that_not_all_was_tried_and_is_continued(
    only_runs: list[str], tmp_path: Path, error: BaseException, status: str, exit_code: int
) -> None:
    plan = plan_torture("skip_locked", seed=1, overrides=(), points=(AFTER.point,), action=None)
    fake = FakeRunner(make_run_of(always_hit), is_latest=False)
    fake.before_run = raise_at(2, error)
    folder, record = carry_out_conformance(plan, tmp_path, RunView(), with_crash_points=True, runner=fake)
    assert (record.status, record.exit_code) == (status, exit_code)
    assert [each.name for each in record.list_promises()] == ["ids ascend", "every promise was tried"]
    fake.before_run = lambda _: None
    continued = continue_conformance(folder, RunView(), fake)
    assert only_runs == ["ids ascend"]
    assert [run.status for run in continued.runs] == ["completed", "completed"]
    assert (continued.verdict, continued.exit_code) == ("pass", 0)
    assert len(list(continued.list_promises())) == 1 + len(PROMISES)


@pytest.mark.usefixtures("only_runs")
def test_the_page_the_junit_file_and_the_record_have_each_promise(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    plan = plan_torture("skip_locked", seed=1, overrides=("workers.count=2",), points=(AFTER.point,), action=None)
    fake = FakeRunner(make_run_of(always_hit), is_latest=False)
    folder, record = carry_out_conformance(plan, tmp_path, RunView(), with_crash_points=True, runner=fake)
    conclusion = KIND.conclude(folder.path, record)
    conclusion.write()
    assert [each.name for each in folder.read().promises] == [each.name for each in record.list_promises()]
    cases = [case.get("name") for case in ET.parse(folder.path / "junit.xml").iter("testcase")]
    assert cases == ["what the study shows", *(each.name for each in record.list_promises())]
    page = (folder.path / "report.html").read_text()
    assert "nothing lost, at every crash point" in page
    assert "stallbench conform skip_locked --set workers.count=2 --seed 1" in page
    capsys.readouterr()
    conclusion.show("the page")
    assert capsys.readouterr().out == "\nKept all 7 promises.\nreport: the page\n"


def test_the_workers_of_a_library_are_killed_at_any_moment_after_all_points_were_tried() -> None:
    plan = plan_torture("library:procrastinate", seed=1, overrides=(), points=(AFTER.point,), action="kill")
    record = ConformanceRecord(id="", bench=describe_bench(), plan=plan, with_crash_points=True)
    first = record.find_next_run()
    assert first is not None
    outcome = TortureOutcome(trials=[an_outcome(AFTER)], elsewhere=[])
    record = record.with_run(first.model_copy(update={"status": "completed", "outcome": outcome}))
    second = record.find_next_run()
    assert second is not None
    assert (first.trials, second.trials) == ((AFTER,), ())
    assert record.with_run(second.model_copy(update={"status": "completed"})).find_next_run() is None


def test_a_changed_phase_stays_changed_in_the_runs_that_have_it_and_is_no_error_in_the_others(tmp_path: Path) -> None:
    plan = plan_torture(
        "library:pgmq", seed=1, overrides=["phases.after_claim.duration=20s", "workers.count=2"], points=(), action=None
    )
    assert plan.read((Trial(CrashPoint.DURING_WORK, "kill"),)).workers.count == 2
    assert read_worker_deaths(plan, tmp_path).workers.count == 2


def test_an_order_that_is_not_promised_is_info() -> None:
    found = summarised(an_outcome(AFTER, order="not promised"), an_outcome(DURING, order="not promised"))
    assert (found["in order"].result, found["in order"].reason) == ("info", "it is not promised")


def test_what_belongs_to_no_point_fails_too() -> None:
    found = summarised(an_outcome(AFTER), elsewhere=(Reason(check="processes", text="worker-1 exited"),))
    assert (found["nothing else is wrong"].result, found["nothing else is wrong"].reason) == (
        "fail",
        "processes: worker-1 exited",
    )


def test_the_lines_say_the_result_first() -> None:
    promises = [PromiseOutcome(name="a", result="pass"), PromiseOutcome(name="b", result="fail", reason="found 1; expected 2")]
    assert [describe_promise(each) for each in promises] == ["holds         a", "broken        b: found 1; expected 2"]


@pytest.mark.parametrize(
    ("raised", "written"),
    [
        ("\x1b[31mno table\x1b[0m", r"\x1b[31mno table\x1b[0m"),
        ("a \0 in the payload", r"a \x00 in the payload"),
        ("half of \ud83d", r"half of \ud83d"),
        ("é, 🙂 and <tags>", "é, 🙂 and <tags>"),
    ],
)
def test_the_files_can_be_read_whatever_the_queue_raises(raised: str, written: str, tmp_path: Path) -> None:
    plan = plan_torture("skip_locked", seed=1, overrides=(), points=(), action=None)
    failed = (PromiseOutcome(name="a", result="fail", reason=raised),)
    record = ConformanceRecord(
        id="", status="completed", bench=describe_bench(), plan=plan, with_crash_points=False, operations=failed
    )
    conclusion = KIND.conclude(tmp_path, record)
    conclusion.write()
    verdict, case = ET.parse(tmp_path / "junit.xml").iter("testcase")
    assert [failure.get("message") for failure in verdict] == ["Broke 1 promise: a."]
    assert [failure.get("message") for failure in case] == [written]
    assert ConformanceFolder(tmp_path).read().exit_code == 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["nowhere.py:MyQueue"], 'queue "nowhere.py:MyQueue" names a file that does not exist'),
        (["library:./nowhere"], "there is no folder"),
        (["skip_locked", "--set", "database.engine=redis"], "redis"),
        (["skip_locked", "--set", "workers.counts=3"], 'queue "skip_locked": --set workers.counts: unknown key'),
    ],
)
def test_bad_input_is_refused_before_anything_is_started(arguments: list[str], message: str) -> None:
    ended = CliRunner().invoke(app, ["conform", *arguments])
    assert isinstance(ended.exception, BadInputError)
    assert message in str(ended.exception)
    assert "/stallbench-" not in str(ended.exception), "the user does not know the scenario that was made for the queue"


def a_finding(check: str, result: Result, reason: str) -> Finding:
    return Finding(check=check, subject="any", result=result, reason=reason)


def a_verdict(*findings: Finding) -> Verdict:
    rest = [a_finding(check, "pass", f"{check} holds") for check in (*PROMISES, "injections")]
    return Verdict(
        run="r",
        status="completed",
        verdict="pass",
        reason="",
        attribution=Attribution(sentence="", holders=(), trend=None),
        findings=(*findings, *rest),
    )


def test_the_worst_finding_of_a_run_in_which_workers_are_killed_counts() -> None:
    found = {each.name: each for each in summarise_verdict(a_verdict(a_finding("duplicates", "fail", "2 jobs were re-executed")))}
    repeated = found["nothing repeated, while its workers are killed"]
    assert (repeated.result, repeated.reason) == ("fail", "2 jobs were re-executed")
    assert found["nothing lost, while its workers are killed"].result == "pass"


@pytest.mark.parametrize("result", ["fail", "unknown"])
def test_what_is_no_promise_but_wrong_counts_while_workers_are_killed_as_it_does_at_crash_points(result: Result) -> None:
    """A worker that crashes when the one beside it is killed, for example."""
    exited = a_finding("processes", result, "exited unexpectedly: worker-2 (exit code 1)")
    found = summarise_verdict(a_verdict(exited, a_finding("schedule", "fail", "the producers were late")))
    others = [each for each in found if each.result != "pass"]
    assert others == [
        PromiseOutcome(
            name="nothing else is wrong, while its workers are killed",
            result=result,
            reason="processes: exited unexpectedly: worker-2 (exit code 1)",
        )
    ]


def test_the_scenario_in_which_workers_are_killed_is_valid(tmp_path: Path) -> None:
    plan = plan_torture("library:procrastinate", seed=7, overrides=("workers.count=2",), points=(), action=None)
    scenario = read_worker_deaths(plan, tmp_path)
    assert (scenario.queue.kind, scenario.workers.count, scenario.seed) == ("library:procrastinate", 2, 7)
    assert [fault.kind for phase in scenario.phases for fault in phase.faults] == ["kill"]


def test_if_no_worker_was_killed_nothing_is_known() -> None:
    found = summarise_verdict(a_verdict(a_finding("injections", "unknown", "kill-1 was not active")))
    assert {(each.result, each.reason) for each in found} == {("unknown", "kill-1 was not active")}


def test_the_workers_of_a_library_are_killed_at_every_point_that_they_pass() -> None:
    plan = plan_torture("library:procrastinate", seed=7, overrides=(), points=(), action=None)
    killed_at = {trial.point for trials in plan.runs for trial in trials if trial.action == "kill"}
    hidden = {CrashPoint.BEFORE_CLAIM_ACKNOWLEDGED, CrashPoint.BEFORE_COMPLETION_ACKNOWLEDGED, CrashPoint.BETWEEN_STEPS}
    assert killed_at == set(CrashPoint) - hidden


def test_the_age_of_jobs_is_no_promise_of_a_library_whose_tables_do_not_tell_it() -> None:
    (promise,) = [one for one in OPERATIONS if one.name == "the age of the oldest job is known"]
    celery, river = find_queue("library:celery"), find_queue("library:river")
    assert promise.find_obstacle(celery) == celery.no_job_age != ""
    assert promise.find_obstacle(river) is None
