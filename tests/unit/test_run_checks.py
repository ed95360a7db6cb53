"""The checks on the run itself: processes, load, Locust's own test."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from stallbench.verdicts import Finding, RunTables, find_checks
from tests.unit.made_up_run import EMPTY, find_of, make_phases, make_process, make_record, make_run


def load_in_longtx(run: RunTables) -> Finding:
    (finding,) = [finding for finding in find_checks()["schedule"]().judge(run) if finding.subject == "load in longtx"]
    return finding


@pytest.mark.parametrize(
    ("role", "intended", "exit_code", "result"),
    [
        ("worker", "stopped", 0, "pass"),
        ("worker", "stopped", 3, "fail"),
        ("worker", "running", -9, "fail"),
        ("worker", "killed", -9, "pass"),
        ("observer", "running", -9, "pass"),  # an observer takes no part in the run
    ],
)
def test_a_process_must_end_as_intended(tmp_path: Path, role: str, intended: str, exit_code: int, result: str) -> None:
    process = make_process(role, intended=intended, exit_code=exit_code)
    record = make_record(processes=[make_process("producer-1"), process])
    assert find_of(make_run(tmp_path, record), "processes").result == result


@pytest.mark.parametrize(
    ("process", "result"),
    [
        (make_process("worker-1", intended="killed", exit_code=-9, outlived_s=15.0), "fail"),
        (make_process("collectors", intended="killed", exit_code=-9, outlived_s=15.0), "unknown"),
        (make_process("worker-1", intended="killed", exit_code=-9), "pass"),
    ],
    ids=["a worker that ignored SIGTERM", "no process of the load", "a worker that a fault killed"],
)
def test_a_process_of_the_load_must_stop_when_it_is_asked_to(tmp_path: Path, process: dict[str, Any], result: str) -> None:
    finding = find_of(make_run(tmp_path, make_record(processes=[process])), "processes")
    assert finding.result == result
    assert result != "fail" or finding.reason == "did not stop when asked to, and were killed: worker-1 (within 15 s)"


def test_a_job_that_takes_longer_than_its_worker_is_waited_for_may_have_to_be_killed(tmp_path: Path) -> None:
    record = make_record(processes=[make_process("worker-1", intended="killed", exit_code=-9, outlived_s=15.0)])
    record["scenario"]["workers"]["work_s"] = 20.0
    assert find_of(make_run(tmp_path, record), "processes").result == "pass"


@pytest.mark.parametrize(("is_claim", "result"), [(True, "pass"), (False, "unknown")])
def test_a_pattern_that_finds_no_claim_statement_does_not_pass(tmp_path: Path, is_claim: bool, result: str) -> None:
    record = make_record()
    record["queue"]["claim_pattern"] = "^SELECT .* FOR UPDATE"
    run = make_run(tmp_path, record)
    line = {"server": "primary", "statement": "1", "is_claim": is_claim, "text": "SELECT $1"}
    (tmp_path / "statements.jsonl").write_text(json.dumps(line) + "\n")
    finding = find_of(run, "records")
    assert finding.result == result
    assert is_claim or "matches none of the 1 statements" in finding.reason


def test_records_without_a_line_are_not_whole(tmp_path: Path) -> None:
    torn = pd.DataFrame({"file": [], "lines": [], "torn_lines": [], "last_line_torn": []})
    assert find_of(make_run(tmp_path, torn=torn), "records").result == "unknown"


@pytest.mark.parametrize(("rate", "result"), [(100.4, "pass"), (99.6, "pass"), (97.0, "fail"), (103.0, "fail")])
def test_the_load_must_be_that_of_the_scenario(tmp_path: Path, rate: float, result: str) -> None:
    record = make_record()
    record["scenario"]["producers"]["max_batch"] = 1
    run = make_run(tmp_path, record, phases=make_phases({("longtx", "enqueued.rate"): rate}))
    assert load_in_longtx(run).result == result


def test_a_job_whose_enqueue_ended_in_an_error_was_offered_too(tmp_path: Path) -> None:
    record = make_record()
    (phase,) = [phase for phase in record["phases"] if phase["name"] == "longtx"]
    length_s = (phase["end_ns"] - phase["start_ns"]) / 1e9
    failed = pd.DataFrame(
        [["longtx", "longtx", "producer-1", "error", "26000", "enqueue", [], int(40 * length_s)]], columns=EMPTY["errors"]
    )
    run = make_run(tmp_path, record, errors=failed, phases=make_phases({("longtx", "enqueued.rate"): 60.0}))
    finding = load_in_longtx(run)
    assert finding.result == "pass"
    assert finding.found.startswith("60.0 jobs/s, 40.0 ended in an error, ")


@pytest.mark.parametrize(("count", "result"), [(1, "fail"), (2, "pass"), (3, "pass")])
def test_each_producer_may_be_in_the_middle_of_a_batch_when_a_phase_ends(tmp_path: Path, count: int, result: str) -> None:
    assert load_of(tmp_path, scheduled=10, count=count, enqueued=8.01) == result


@pytest.mark.parametrize(
    ("scheduled", "enqueued", "result"),
    [
        (10.04, 9.01, "pass"),
        (10.04, 8.99, "fail"),
        (10.04, 11.99, "pass"),
        (10.04, 12.01, "fail"),
        (10, 9.01, "pass"),
        (10, 8.9, "fail"),
        (10, 11.1, "fail"),
    ],
)
def test_a_schedule_has_whole_jobs(tmp_path: Path, scheduled: float, enqueued: float, result: str) -> None:
    assert load_of(tmp_path, scheduled=scheduled, count=1, enqueued=enqueued) == result


def load_of(folder: Path, *, scheduled: float, count: int, enqueued: float) -> str:
    """Return the result for a phase in which so many jobs were scheduled and enqueued, one by one, by ``count`` producers."""
    record = make_record()
    (phase,) = [phase for phase in record["phases"] if phase["name"] == "longtx"]
    jobs_s = 1e9 / (phase["end_ns"] - phase["start_ns"])
    record["scenario"]["producers"] |= {"rate": scheduled * jobs_s, "max_batch": 1, "count": count}
    run = make_run(folder, record, phases=make_phases({("longtx", "enqueued.rate"): enqueued * jobs_s}))
    return str(load_in_longtx(run).result)


@pytest.mark.parametrize(
    ("intended", "exit_code", "recorded", "result"),
    [
        ("stopped", 0, "pass", ("pass", "producer-1: all bounds of Locust hold")),
        ("stopped", 1, "fail", ("fail", "producer-1: response time p95 is 7 ms; expected at most 5")),
        ("stopped", 1, None, ("unknown", "producer-1: Locust did not record whether its test passed")),
        ("killed", -9, None, ("info", "no Locust process took part until its end")),
    ],
)
def test_the_verdict_fails_where_locusts_own_test_does(
    tmp_path: Path, intended: str, exit_code: int, recorded: str | None, result: tuple[str, str]
) -> None:
    process = make_process("producer-1", intended=intended, exit_code=exit_code, orderly_exit_codes=[0, 1])
    tables = make_run(tmp_path, record=make_record(processes=[process]))
    if recorded:
        (tables.folder / "locust").mkdir()
        judgement = {
            "result": recorded,
            "requests": 100,
            "failures": 0,
            "response_ms": {"p95": 7},
            "bounds": {"max_failure_ratio": 0, "at_most_ms": {"p95": 5}},
            "reasons": ["response time p95 is 7 ms; expected at most 5"] if recorded == "fail" else [],
        }
        (tables.folder / "locust" / "producer-1.json").write_text(json.dumps(judgement))
    assert find_of(tables, "processes").result == "pass"
    locust = find_of(tables, "locust")
    assert (locust.result, locust.reason) == result


def test_a_run_whose_jobs_are_all_in_the_queue_from_the_start_has_no_schedule(tmp_path: Path) -> None:
    record = make_record()
    record["scenario"]["producers"]["rate"] = 0
    assert find_of(make_run(tmp_path, record), "schedule").result == "info"
