"""The checks on jobs: none lost, none re-executed without a reason, none left behind, none passed over."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from stallbench.verdicts.check import Severity
from tests.unit.made_up_run import (
    EMPTY,
    find_of,
    make_fault,
    make_phases,
    make_process,
    make_record,
    make_record_with_expectation,
    make_run,
    make_windows,
)


def record_of_a_death(**queue: Any) -> dict[str, Any]:
    """Return the record of a run in which a worker was killed; ``queue`` replaces what its queue declares."""
    record = make_record(processes=[make_process("worker-1", exit_code=-9, intended="killed")])
    record["queue"] |= {"claims_survive_connection": False, **queue}
    return record


def overdue(kind: str, jobs: int) -> pd.DataFrame:
    return pd.DataFrame([{"kind": kind, "jobs": jobs, "examples": [7], "longest_s": 3.0}])


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
    row = [7, 2, 2, "worker-1, worker-2", excused, "why"]
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
    row = [7, 2, completions, "worker-1, worker-2", False, "why"]
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
        ("offered_again", True, "pass"),
        ("available_again", True, "pass"),
        ("not_yet_due", True, "unknown"),
        ("out_of_attempts", True, "info"),
        ("passed_over", True, "info"),
    ],
)
def test_a_job_of_a_dead_worker_must_be_offered_again(tmp_path: Path, kind: str, ordered: bool, result: str) -> None:
    record = record_of_a_death(ordered=ordered)
    assert find_of(make_run(tmp_path, record, overdue=overdue(kind, 1)), "left behind").result == result


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


_RENEWING = {
    "title": "x",
    "version": "1",
    "language": "y",
    "completion": "z",
    "rescue": "a claim",
    "renews_claims": True,
    "settings": {"rescue_interval": "each claim", "poll_interval": 10.0},
}


def test_a_library_that_never_rescues_jobs_says_so_in_its_own_words(tmp_path: Path) -> None:
    library = {"title": "x", "version": "1", "language": "y", "completion": "z", "rescue": "nothing: the task stays RUNNING"}
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
            {"claims_survive_connection": True, "expiry_s": 30.0, "library": _RENEWING},
            "the queue rescues such a job 40 s after the last renewal of its claim, which is after the end of the run",
        ),
        ({"claims_survive_connection": True}, "the queue does not declare after how long it rescues such a job"),
        ({}, "a claim ends with its connection, but the run ended less than 1 s later, or during a fault"),
    ],
)
def test_jobs_that_would_be_rescued_after_the_end_of_the_run_are_unknown(
    tmp_path: Path, queue: dict[str, Any], reason: str
) -> None:
    tables = pd.concat([overdue("not_yet_due", 3), overdue("offered_again", 5)])
    finding = find_of(make_run(tmp_path, record_of_a_death(**queue), overdue=tables), "left behind")
    assert (finding.result, finding.reason) == ("unknown", f"3 jobs of dead workers are still claimed; {reason}")
    assert finding.examples == ("7",)


def test_the_jobs_that_were_rescued_are_counted(tmp_path: Path) -> None:
    tables = pd.concat([overdue("offered_again", 5), overdue("available_again", 1)])
    finding = find_of(make_run(tmp_path, record_of_a_death(), overdue=tables), "left behind")
    assert finding.reason == (
        "5 jobs of dead workers were claimed again, at most 3.0 s after the worker's end; "
        "1 job of a dead worker was available again at the end"
    )


def test_a_record_that_does_not_say_when_claims_end_decides_nothing(tmp_path: Path) -> None:
    run = make_run(tmp_path, record_of_a_death(claims_survive_connection=None))
    assert find_of(run, "left behind").result == "unknown"


@pytest.mark.parametrize(
    ("ordered", "jobs", "result"),
    [(True, 2, "pass"), (True, 3, "fail"), (False, 3, "info")],
    ids=["allowed", "too many", "unordered"],
)
def test_a_queue_that_keeps_the_order_passes_over_no_more_jobs_than_workers_could_have_held(
    tmp_path: Path, ordered: bool, jobs: int, result: str
) -> None:
    worker = make_process("worker-1")
    record = make_record(processes=[worker])
    record["queue"]["ordered"] = ordered
    errors = pd.DataFrame([["longtx", "longtx", "worker-1", "error", "57014", "claim", [], 1]], columns=EMPTY["errors"])
    finding = find_of(make_run(tmp_path, record, errors=errors, overdue=overdue("passed_over", jobs)), "order")
    assert finding.result == result
    assert f"{jobs} jobs were passed over by younger ones (for up to 3.0 s)" in finding.reason


LIBRARY = {"title": "x", "version": "1", "language": "y", "completion": "z", "rescue": "another worker"}


@pytest.mark.parametrize(
    ("settings", "jobs", "result"),
    [
        ({"concurrency": 2, "batch_size": 10}, 10, "pass"),
        ({"concurrency": 2, "batch_size": 10}, 11, "fail"),
        ({"concurrency": 100, "batch_size": 100}, 101, "fail"),
        ({"concurrency": "no limit", "batch_size": 10}, 10, "pass"),
        ({"concurrency": "no limit", "batch_size": 10}, 11, "unknown"),
        ({}, 1, "pass"),
        ({}, 2, "fail"),
    ],
)
def test_a_dead_worker_of_a_library_may_have_held_as_many_jobs_as_its_settings_allow(
    tmp_path: Path, settings: dict[str, object], jobs: int, result: str
) -> None:
    """Its jobs are rescued when their claims have expired, and none of them was recorded before its execution began."""
    record = record_of_a_death(ordered=True, library={**LIBRARY, "settings": settings})
    finding = find_of(make_run(tmp_path, record, overdue=overdue("passed_over", jobs)), "order")
    assert finding.result == result
    assert ("a worker that died or was paused may have held any of them" in finding.reason) == (result == "unknown")


@pytest.mark.parametrize(("jobs", "result"), [(19, "pass"), (20, "fail")])
def test_a_worker_of_a_library_may_have_held_as_many_each_time_that_it_was_paused(tmp_path: Path, jobs: int, result: str) -> None:
    paused = {**make_fault("longtx"), "evidence": {"paused": ["worker-1", "worker-1", "producer-1"]}}
    record = make_record(processes=[make_process("worker-1"), make_process("producer-1", role="producer")], injections=[paused])
    record["queue"].update(ordered=True, library={**LIBRARY, "settings": {"concurrency": 10, "batch_size": 1}})
    assert find_of(make_run(tmp_path, record, overdue=overdue("passed_over", jobs)), "order").result == result


@pytest.mark.parametrize(("jobs", "result"), [(11, "pass"), (12, "fail")])
def test_jobs_that_a_fault_had_locked_may_be_passed_over(tmp_path: Path, jobs: int, result: str) -> None:
    locking = {**make_fault("longtx"), "evidence": {"locked_jobs": 10}}
    record = make_record(processes=[make_process("worker-1")], injections=[locking])
    record["queue"]["ordered"] = True
    assert find_of(make_run(tmp_path, record, overdue=overdue("passed_over", jobs)), "order").result == result


@pytest.mark.parametrize(("jobs", "result"), [(1, "pass"), (2, "fail")])
def test_a_library_whose_workers_all_live_may_pass_over_one_job_for_each(tmp_path: Path, jobs: int, result: str) -> None:
    record = make_record(processes=[make_process("worker-1")])
    record["queue"].update(ordered=True, library={**LIBRARY, "settings": {"concurrency": 10, "batch_size": 10}})
    assert find_of(make_run(tmp_path, record, overdue=overdue("passed_over", jobs)), "order").result == result


def test_a_library_without_a_limit_passes_over_jobs_when_no_worker_has_died(tmp_path: Path) -> None:
    record = make_record(processes=[make_process("worker-1")])
    record["queue"].update(ordered=True, library={**LIBRARY, "settings": {"concurrency": "no limit", "batch_size": 10}})
    assert find_of(make_run(tmp_path, record, overdue=overdue("passed_over", 11)), "order").result == "fail"


@pytest.mark.parametrize(("ordered", "result"), [(True, "unknown"), (False, "info")])
def test_an_order_without_claims_is_unknown_if_the_queue_promises_one(tmp_path: Path, ordered: bool, result: str) -> None:
    record = make_record()
    record["queue"]["ordered"] = ordered
    assert find_of(make_run(tmp_path, record, phases=make_phases({})), "order").result == result


def test_without_claims_nothing_is_known_of_re_executions(tmp_path: Path) -> None:
    nothing = make_windows(lambda _: 0.0, lambda _: None).assign(claimed=0)
    assert find_of(make_run(tmp_path, windows=nothing), "duplicates").result == "unknown"


@pytest.mark.parametrize(
    ("claimed", "broken", "result"), [(10, 0, "pass"), (10, 1, "fail"), (0, 0, "unknown")], ids=["kept", "broken", "no claim"]
)
def test_a_job_that_must_wait_waits(tmp_path: Path, claimed: int, broken: int, result: str) -> None:
    row = {"rule": "not_before_due", "jobs": 10, "claimed": claimed, "broken": broken, "examples": []}
    run = make_run(tmp_path, waiting=pd.DataFrame([row]))
    assert find_of(run, "waiting").result == result


def test_the_delay_of_scheduled_jobs_is_reported(tmp_path: Path) -> None:
    row = {"rule": "not_before_due", "jobs": 10, "claimed": 10, "broken": 0, "examples": []}
    phases = make_phases({("run", "start_delay_ms.p50"): 12.0, ("run", "start_delay_ms.p99"): 80.0})
    finding = find_of(make_run(tmp_path, waiting=pd.DataFrame([row]), phases=phases), "waiting")
    assert finding.reason == "0 of 10 jobs started before they were due; start delay p50 12 ms, p99 80 ms"
