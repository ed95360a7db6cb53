"""The check on the order of claims: a queue that keeps it passes no job over."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest

from tests.unit.made_up_run import (
    EMPTY,
    LIBRARY,
    find_of,
    make_fault,
    make_overdue,
    make_phases,
    make_process,
    make_record,
    make_run,
    make_windows,
    record_of_a_death,
)


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
    finding = find_of(make_run(tmp_path, record, errors=errors, overdue=make_overdue("passed_over", jobs)), "order")
    assert finding.result == result
    assert f"{jobs} jobs were passed over by younger ones (for up to 3.0 s)" in finding.reason


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
    finding = find_of(make_run(tmp_path, record, overdue=make_overdue("passed_over", jobs)), "order")
    assert finding.result == result
    assert ("a worker that died or was paused may have held any of them" in finding.reason) == (result == "unknown")


@pytest.mark.parametrize(("jobs", "result"), [(19, "pass"), (20, "fail")])
def test_a_worker_of_a_library_may_have_held_as_many_each_time_that_it_was_paused(tmp_path: Path, jobs: int, result: str) -> None:
    paused = {**make_fault("longtx"), "evidence": {"paused": ["worker-1", "worker-1", "producer-1"]}}
    record = make_record(processes=[make_process("worker-1"), make_process("producer-1", role="producer")], injections=[paused])
    record["queue"].update(ordered=True, library={**LIBRARY, "settings": {"concurrency": 10, "batch_size": 1}})
    assert find_of(make_run(tmp_path, record, overdue=make_overdue("passed_over", jobs)), "order").result == result


@pytest.mark.parametrize(("jobs", "result"), [(11, "pass"), (12, "fail")])
def test_jobs_that_a_fault_had_locked_may_be_passed_over(tmp_path: Path, jobs: int, result: str) -> None:
    locking = {**make_fault("longtx"), "evidence": {"locked_jobs": 10}}
    record = make_record(processes=[make_process("worker-1")], injections=[locking])
    record["queue"]["ordered"] = True
    assert find_of(make_run(tmp_path, record, overdue=make_overdue("passed_over", jobs)), "order").result == result


@pytest.mark.parametrize(("jobs", "result"), [(1, "pass"), (2, "fail")])
def test_a_library_whose_workers_all_live_may_pass_over_one_job_for_each(tmp_path: Path, jobs: int, result: str) -> None:
    record = make_record(processes=[make_process("worker-1")])
    record["queue"].update(ordered=True, library={**LIBRARY, "settings": {"concurrency": 10, "batch_size": 10}})
    assert find_of(make_run(tmp_path, record, overdue=make_overdue("passed_over", jobs)), "order").result == result


def test_a_library_without_a_limit_passes_over_jobs_when_no_worker_has_died(tmp_path: Path) -> None:
    record = make_record(processes=[make_process("worker-1")])
    record["queue"].update(ordered=True, library={**LIBRARY, "settings": {"concurrency": "no limit", "batch_size": 10}})
    assert find_of(make_run(tmp_path, record, overdue=make_overdue("passed_over", 11)), "order").result == "fail"


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
