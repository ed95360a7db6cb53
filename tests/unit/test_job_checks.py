"""The checks on jobs: none lost, none re-executed without a reason, none left behind."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from stallbench.verdicts.check import Severity
from tests.unit.made_up_run import (
    EMPTY,
    LIBRARY,
    find_of,
    make_overdue,
    make_process,
    make_record,
    make_record_with_expectation,
    make_run,
    make_windows,
    record_of_a_death,
)


def one_job_in(state: str) -> pd.DataFrame:
    return pd.DataFrame([{"state": "enqueued", "jobs": 10, "examples": []}, {"state": state, "jobs": 1, "examples": [7]}])


@pytest.mark.parametrize(
    ("state", "result"),
    [
        ("lost", "fail"),
        ("unexpected", "fail"),
        ("held_after_completion", "fail"),
        ("unknown", "unknown"),
        ("queued", "pass"),
        ("claimed", "pass"),
        ("completed_unrecorded", "pass"),
        ("enqueue_unrecorded", "pass"),
    ],
)
def test_every_job_must_be_accounted_for(tmp_path: Path, state: str, result: str) -> None:
    finding = find_of(make_run(tmp_path, conservation=one_job_in(state)), "conservation")
    assert finding.result == result
    assert finding.examples == (("7",) if result != "pass" else ())


@pytest.mark.parametrize(
    ("states", "severity"),
    [
        (("lost", "unexpected"), Severity.JOBS_LOST),
        (("held_after_completion", "unexpected"), Severity.JOBS_REPEATED),
        (("unexpected",), Severity.JOBS_UNEXPECTED),
    ],
)
def test_a_job_that_nobody_enqueued_is_less_severe_than_a_lost_one(
    tmp_path: Path, states: tuple[str, ...], severity: Severity
) -> None:
    run = make_run(tmp_path, conservation=pd.concat([one_job_in(state) for state in states]))
    assert find_of(run, "conservation").severity is severity


def test_losses_that_an_expectation_allows_do_not_make_another_finding_more_severe(tmp_path: Path) -> None:
    record = make_record_with_expectation(metric="lost.count", at_most=1)
    run = make_run(tmp_path, record, conservation=pd.concat([one_job_in("lost"), one_job_in("unexpected")]))
    finding = find_of(run, "conservation")
    assert (finding.result, finding.severity) == ("fail", Severity.JOBS_UNEXPECTED)


@pytest.mark.parametrize(
    ("metric", "bound", "result"),
    [("lost.count", "at_most", "pass"), ("lost.count", "at_least", "fail"), ("depth.max", "at_most", "fail")],
)
def test_only_an_upper_bound_on_losses_judges_them_instead_of_the_check(
    tmp_path: Path, metric: str, bound: str, result: str
) -> None:
    run = make_run(tmp_path, make_record_with_expectation(metric=metric, **{bound: 1}), conservation=one_job_in("lost"))
    finding = find_of(run, "conservation")
    assert finding.result == result
    assert finding.examples == ("7",), "the ids are reported in any case"


@pytest.mark.parametrize(("excused", "result"), [(True, "pass"), (False, "fail")])
def test_a_re_execution_needs_a_reason(tmp_path: Path, excused: bool, result: str) -> None:
    row = [7, 2, 2, "worker-1, worker-2", excused, "why", "", None]
    run = make_run(tmp_path, duplicates=pd.DataFrame([row], columns=EMPTY["duplicates"]))
    assert find_of(run, "duplicates").result == result


@pytest.mark.parametrize(
    ("completions", "phase", "bound", "result"),
    [
        (2, None, "at_most", "pass"),
        (2, None, "at_least", "fail"),
        (2, "longtx", "at_most", "fail"),
        (1, None, "at_most", "fail"),
    ],
    ids=["re-completed", "lower bound", "expectation on one phase", "only re-executed"],
)
def test_only_an_upper_bound_for_the_whole_run_judges_second_completions(
    tmp_path: Path, completions: int, phase: str | None, bound: str, result: str
) -> None:
    row = [7, 2, completions, "worker-1, worker-2", False, "why", "", None]
    record = make_record_with_expectation(metric="re_completed.count", phase=phase, **{bound: 1})
    run = make_run(tmp_path, record, duplicates=pd.DataFrame([row], columns=EMPTY["duplicates"]))
    assert find_of(run, "duplicates").result == result


@pytest.mark.parametrize(
    ("kind", "ordered", "result"),
    [
        ("left_behind", True, "fail"),
        ("left_behind", False, "pass"),
        ("held_for_the_dead", True, "fail"),
        ("held_for_the_dead", False, "fail"),
        ("left_while_idle", False, "fail"),
        ("offered_again", True, "pass"),
        ("available_again", True, "pass"),
        ("not_yet_due", True, "unknown"),
        ("out_of_attempts", True, "info"),
        ("passed_over", True, "info"),
    ],
)
def test_a_job_of_a_dead_worker_must_be_offered_again(tmp_path: Path, kind: str, ordered: bool, result: str) -> None:
    record = record_of_a_death(ordered=ordered)
    assert find_of(make_run(tmp_path, record, overdue=make_overdue(kind, 1)), "left behind").result == result


def test_a_run_without_a_death_shows_nothing_about_jobs_of_dead_workers(tmp_path: Path) -> None:
    finding = find_of(make_run(tmp_path, make_record(processes=[make_process("worker-1")])), "left behind")
    assert (finding.result, finding.reason) == ("info", "no worker died")


@pytest.mark.parametrize(
    ("queue", "reason"),
    [
        ({"rescues_jobs": False}, "the queue never offers the job of a dead worker again: such a job is lost"),
        ({"promise": "at_most_once"}, "the queue promises at-most-once: the job of a dead worker is lost with it"),
        ({}, "no worker is known to have had a job when it died"),
    ],
)
def test_a_queue_that_never_rescues_jobs_does_not_pass(tmp_path: Path, queue: dict[str, Any], reason: str) -> None:
    finding = find_of(make_run(tmp_path, record_of_a_death(**queue)), "left behind")
    assert (finding.result, finding.reason) == ("info", reason)


def test_a_library_that_never_rescues_jobs_says_so_in_its_own_words(tmp_path: Path) -> None:
    library = {**LIBRARY, "rescue": "nothing: the task stays RUNNING"}
    finding = find_of(make_run(tmp_path, record_of_a_death(rescues_jobs=False, library=library)), "left behind")
    assert finding.reason.startswith("the queue never offers the job of a dead worker again (nothing: the task stays RUNNING)")


@pytest.mark.parametrize(
    ("queue", "reason"),
    [
        (
            {"claims_survive_connection": True, "expiry_s": 3637.0},
            "the queue rescues such a job 3637 s after its claim, which is after the end of the run",
        ),
        (
            {"claims_survive_connection": True, "expiry_s": 30.0, "library": {**LIBRARY, "renews_claims": True}},
            "the queue rescues such a job 30 s after the last renewal of its claim, which is after the end of the run",
        ),
        ({"claims_survive_connection": True}, "the queue does not declare after how long it rescues such a job"),
        ({}, "a claim ends with its connection, but the run ended less than 1 s later, or during a fault"),
    ],
)
def test_jobs_that_would_be_rescued_after_the_end_of_the_run_are_unknown(
    tmp_path: Path, queue: dict[str, Any], reason: str
) -> None:
    tables = pd.concat([make_overdue("not_yet_due", 3), make_overdue("offered_again", 5)])
    finding = find_of(make_run(tmp_path, record_of_a_death(**queue), overdue=tables), "left behind")
    assert (finding.result, finding.reason) == ("unknown", f"3 jobs of dead workers are still claimed; {reason}")
    assert finding.examples == ("7",)


def test_the_jobs_that_were_rescued_are_counted(tmp_path: Path) -> None:
    tables = pd.concat([make_overdue("offered_again", 5), make_overdue("available_again", 1)])
    finding = find_of(make_run(tmp_path, record_of_a_death(), overdue=tables), "left behind")
    assert finding.reason == (
        "5 jobs of dead workers were claimed again, at most 3.0 s after the worker's end; "
        "1 job of a dead worker was available again at the end"
    )


def test_a_record_that_does_not_say_when_claims_end_decides_nothing(tmp_path: Path) -> None:
    run = make_run(tmp_path, record_of_a_death(claims_survive_connection=None))
    assert find_of(run, "left behind").result == "unknown"


@pytest.mark.parametrize(
    ("kind", "result"),
    [("never_claimed", "fail"), ("waited_while_busy", "info"), ("passed_over", "pass"), ("offered_again", "pass")],
)
def test_a_job_that_is_ready_must_be_claimed_while_workers_are_idle(tmp_path: Path, kind: str, result: str) -> None:
    record = make_record()
    record["queue"]["ordered"] = False
    finding = find_of(make_run(tmp_path, record, overdue=make_overdue(kind, 300)), "starvation")
    assert finding.result == result
    assert result != "fail" or finding.reason.startswith("300 jobs were ready and never claimed although workers were idle")


@pytest.mark.parametrize("check", ["starvation", "duplicates"])
def test_without_a_claim_nothing_is_known(tmp_path: Path, check: str) -> None:
    windows = make_windows(lambda _: 0.0, lambda _: 1.0).assign(claimed=0)
    assert find_of(make_run(tmp_path, windows=windows), check).result == "unknown"


@pytest.mark.parametrize(("ascend", "result"), [(True, "pass"), (False, "fail"), (None, "info")])
def test_attempts_that_the_queue_counts_have_ascending_numbers(tmp_path: Path, ascend: bool | None, result: str) -> None:
    row = [7, 2, 1, "worker-1, worker-2", True, "why", "1, 1", ascend]
    duplicates = pd.DataFrame([row], columns=EMPTY["duplicates"]).astype({"attempts_ascend": "boolean"})
    finding = find_of(make_run(tmp_path, duplicates=duplicates), "attempts")
    assert finding.result == result
    assert finding.examples == (("7 (attempts 1, 1)",) if result == "fail" else ())


@pytest.mark.parametrize(("lost", "result"), [(1, "pass"), (2, "fail")])
def test_at_most_once_may_lose_one_job_with_each_worker_that_died(tmp_path: Path, lost: int, result: str) -> None:
    conservation = pd.DataFrame(
        [{"state": "enqueued", "jobs": 10, "examples": []}, {"state": "lost", "jobs": lost, "examples": [7]}]
    )
    run = make_run(tmp_path, record_of_a_death(promise="at_most_once"), conservation=conservation)
    assert find_of(run, "conservation").result == result
    assert find_of(run, "left behind").result == "info"
