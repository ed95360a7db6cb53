"""The checks on jobs: none lost, none re-executed without a reason, none left behind, none passed over."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest

from tests.unit.made_up_run import (
    EMPTY,
    find_of,
    make_phases,
    make_process,
    make_record,
    make_record_with_expectation,
    make_run,
)


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


@pytest.mark.parametrize(("metric", "result"), [("lost.count", "pass"), ("depth.max", "fail")])
def test_an_expectation_on_losses_judges_them_instead_of_the_check(tmp_path: Path, metric: str, result: str) -> None:
    run = make_run(tmp_path, make_record_with_expectation(metric=metric, at_least=1), conservation=one_job_in("lost"))
    finding = find_of(run, "conservation")
    assert finding.result == result
    assert finding.examples == ("7",), "the ids are reported in any case"


@pytest.mark.parametrize(("excused", "result"), [(True, "pass"), (False, "fail")])
def test_a_re_execution_needs_a_reason(tmp_path: Path, excused: bool, result: str) -> None:
    row = [7, 2, 2, "worker-1, worker-2", excused, "why"]
    run = make_run(tmp_path, duplicates=pd.DataFrame([row], columns=EMPTY["duplicates"]))
    assert find_of(run, "duplicates").result == result


@pytest.mark.parametrize(
    ("completions", "phase", "result"),
    [(2, None, "pass"), (2, "longtx", "fail"), (1, None, "fail")],
    ids=["re-completed", "expectation on one phase", "only re-executed"],
)
def test_an_expectation_on_the_whole_run_judges_second_completions(
    tmp_path: Path, completions: int, phase: str | None, result: str
) -> None:
    row = [7, 2, completions, "worker-1, worker-2", False, "why"]
    record = make_record_with_expectation(metric="re_completed.count", phase=phase, at_least=1)
    run = make_run(tmp_path, record, duplicates=pd.DataFrame([row], columns=EMPTY["duplicates"]))
    assert find_of(run, "duplicates").result == result


@pytest.mark.parametrize(
    ("kind", "ordered", "result"),
    [
        ("left_behind", True, "fail"),
        ("left_behind", False, "pass"),
        ("held_for_the_dead", True, "fail"),
        ("held_for_the_dead", False, "fail"),
        ("passed_over", True, "pass"),
    ],
)
def test_a_job_of_a_dead_worker_must_be_offered_again(tmp_path: Path, kind: str, ordered: bool, result: str) -> None:
    record = make_record()
    record["queue"]["ordered"] = ordered
    assert find_of(make_run(tmp_path, record, overdue=overdue(kind, 1)), "left behind").result == result


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
    errors = pd.DataFrame([["longtx", "worker-1", "error", "57014", "claim", 1]], columns=EMPTY["errors"])
    finding = find_of(make_run(tmp_path, record, errors=errors, overdue=overdue("passed_over", jobs)), "order")
    assert finding.result == result
    assert f"{jobs} jobs were passed over by younger ones (for up to 3.0 s)" in finding.reason


def test_an_order_without_claims_is_unknown(tmp_path: Path) -> None:
    assert find_of(make_run(tmp_path, phases=make_phases({})), "order").result == "unknown"


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
