"""Each check fails on what it is there for, and what cannot be decided never passes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from stallbench.verdicts import RunTables, Verdict, find_checks, judge
from stallbench.verdicts.expectations import format_value
from tests.unit.made_up_run import EMPTY, START_NS, make_fault, make_phases, make_record, make_run


def result_of(verdict: Verdict, check: str) -> tuple[str, str]:
    (finding,) = [finding for finding in verdict.findings if finding.check == check]
    return finding.result, finding.reason


def with_expectation(**expectation: Any) -> dict[str, Any]:
    record = make_record()
    whole = {"phase": None, "relative_to": None, "at_least": None, "at_most": None, "because": None, **expectation}
    record["scenario"]["expect"] = [whole]
    return record


def test_a_sound_run_passes(tmp_path: Path) -> None:
    verdict = judge(make_run(tmp_path))
    assert (verdict.verdict, verdict.status) == ("pass", "completed")
    assert {finding.check for finding in verdict.findings} == set(find_checks()) - {
        "expectations",
        "injections",
        "deadlocks",
        "advisory locks",
        "waiting",
        "clocks",
        "locust",
    }
    assert (tmp_path / "verdict.json").exists()


@pytest.mark.parametrize(
    ("value", "bounds", "result"),
    [
        (6.0, {"at_least": 5}, "pass"),
        (5.0, {"at_least": 5}, "pass"),
        (4.9, {"at_least": 5}, "fail"),
        (4.9, {"at_most": 5}, "pass"),
        (5.1, {"at_most": 5}, "fail"),
        (5.0, {"at_least": 4, "at_most": 6}, "pass"),
    ],
)
def test_an_expectation_is_held_against_its_bounds(tmp_path: Path, value: float, bounds: dict[str, float], result: str) -> None:
    record = with_expectation(metric="claim_ms.p95", phase="longtx", **bounds)
    run = make_run(tmp_path, record, phases=make_phases({("longtx", "claim_ms.p95"): value}))
    assert result_of(judge(run), "expectations")[0] == result


@pytest.mark.parametrize(
    ("value", "written"),
    [(0.51234, "0.512"), (8.2, "8.2"), (97.96, "98"), (997.9, "998"), (999.8, "1,000"), (6300.4, "6,300"), (7, "7")],
)
def test_a_figure_is_written_out_and_with_three_digits(value: float, written: str) -> None:
    assert format_value(value) == written


def test_a_relative_expectation_is_a_ratio_to_the_other_phase(tmp_path: Path) -> None:
    record = with_expectation(metric="claim_ms.p95", phase="longtx", relative_to="baseline", at_least=5)
    values = {("longtx", "claim_ms.p95"): 8.0, ("baseline", "claim_ms.p95"): 2.0}
    result, reason = result_of(judge(make_run(tmp_path, record, phases=make_phases(values))), "expectations")
    assert result == "fail"
    assert "4.00 times baseline (8 against 2)" in reason


@pytest.mark.parametrize("values", [{}, {("longtx", "claim_ms.p95"): 8.0, ("baseline", "claim_ms.p95"): 0.0}])
def test_an_expectation_without_data_is_unknown(tmp_path: Path, values: dict[tuple[str, str], float]) -> None:
    record = with_expectation(metric="claim_ms.p95", phase="longtx", relative_to="baseline", at_least=5)
    verdict = judge(make_run(tmp_path, record, phases=make_phases(values)))
    assert result_of(verdict, "expectations")[0] == "unknown"
    assert verdict.verdict == "unknown"


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
    rows = [{"state": "enqueued", "jobs": 10, "examples": []}, {"state": state, "jobs": 1, "examples": [7]}]
    verdict = judge(make_run(tmp_path, conservation=pd.DataFrame(rows)))
    assert result_of(verdict, "conservation")[0] == result
    (finding,) = [finding for finding in verdict.findings if finding.check == "conservation"]
    assert finding.examples == (("7",) if result != "pass" else ())


def overdue(kind: str, jobs: int) -> pd.DataFrame:
    return pd.DataFrame([{"kind": kind, "jobs": jobs, "examples": [7], "longest_s": 3.0}])


@pytest.mark.parametrize(
    ("ordered", "jobs", "result"),
    [(True, 2, "pass"), (True, 3, "fail"), (False, 3, "pass")],
    ids=["allowed", "too many", "unordered"],
)
def test_a_queue_that_keeps_the_order_passes_over_no_more_jobs_than_workers_could_have_had(
    tmp_path: Path, ordered: bool, jobs: int, result: str
) -> None:
    worker = {"name": "worker-1", "role": "worker", "end_ns": START_NS, "intended": "stopped", "exit_code": 0}
    record = make_record(processes=[worker])
    record["queue"]["ordered"] = ordered
    errors = pd.DataFrame([["longtx", "worker-1", "error", "57014", "claim", 1]], columns=EMPTY["errors"])
    verdict = judge(make_run(tmp_path, record, errors=errors, overdue=overdue("passed_over", jobs)))
    found, reason = result_of(verdict, "order")
    assert found == result
    assert f"{jobs} jobs were passed over by younger ones (for up to 3.0 s)" in reason


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
    assert result_of(judge(make_run(tmp_path, record, overdue=overdue(kind, 1))), "left behind")[0] == result


@pytest.mark.parametrize(("event", "count", "result"), [("error", 5, "pass"), ("retried", 5, "pass"), ("error", 4, "fail")])
def test_every_deadlock_that_the_server_broke_must_have_been_told(tmp_path: Path, event: str, count: int, result: str) -> None:
    errors = pd.DataFrame([["longtx", "worker-1", event, "1213", "complete", count]], columns=EMPTY["errors"])
    run = make_run(tmp_path, errors=errors, phases=make_phases({("run", "deadlocks.count"): 5}))
    assert result_of(judge(run), "deadlocks")[0] == result


@pytest.mark.parametrize(("locks", "result"), [(1, "pass"), (2, "fail")])
def test_a_session_holds_as_many_advisory_locks_as_its_queue_needs(tmp_path: Path, locks: int, result: str) -> None:
    record = make_record()
    record["queue"]["advisory_locks"] = 1
    run = make_run(tmp_path, record, phases=make_phases({("run", "advisory_locks.max"): locks}))
    assert result_of(judge(run), "advisory locks")[0] == result


@pytest.mark.parametrize(("excused", "result"), [(True, "pass"), (False, "fail")])
def test_a_further_execution_needs_a_reason(tmp_path: Path, excused: bool, result: str) -> None:
    row = [7, 2, 2, "worker-1, worker-2", excused, "why"]
    run = make_run(tmp_path, duplicates=pd.DataFrame([row], columns=EMPTY["duplicates"]))
    assert result_of(judge(run), "duplicates")[0] == result


@pytest.mark.parametrize(
    ("faulty_phase", "result"), [("longtx", "pass"), ("baseline", "pass"), ("recovered", "fail"), (None, "fail")]
)
def test_an_error_needs_a_fault_in_its_phase_or_the_one_before(tmp_path: Path, faulty_phase: str | None, result: str) -> None:
    faults = [make_fault(faulty_phase)] if faulty_phase else []
    errors = pd.DataFrame([["longtx", "worker-1", "error", "40P01", "claim", 3]], columns=EMPTY["errors"])
    verdict = judge(make_run(tmp_path, make_record(injections=faults), errors=errors))
    assert result_of(verdict, "errors") == (result, "calls raised: 3 x 40P01 in claim")


def test_errors_of_which_an_expectation_says_how_many_are_judged_by_it(tmp_path: Path) -> None:
    errors = pd.DataFrame([["longtx", "worker-1", "error", "1213", "complete", 3]], columns=EMPTY["errors"])
    record = with_expectation(metric="deadlocks_in_complete.count", phase="longtx", at_least=4)
    assert result_of(judge(make_run(tmp_path, record, errors=errors)), "errors")[0] == "pass"


@pytest.mark.parametrize(("metric", "result"), [("lost.count", "pass"), ("depth.max", "fail")])
def test_losses_of_which_an_expectation_says_how_many_are_judged_by_it(tmp_path: Path, metric: str, result: str) -> None:
    rows = [{"state": "enqueued", "jobs": 10, "examples": []}, {"state": "lost", "jobs": 1, "examples": [7]}]
    verdict = judge(make_run(tmp_path, with_expectation(metric=metric, at_least=1), conservation=pd.DataFrame(rows)))
    assert result_of(verdict, "conservation")[0] == result
    (finding,) = [finding for finding in verdict.findings if finding.check == "conservation"]
    assert finding.examples == ("7",), "they are named in any case"


@pytest.mark.parametrize(
    ("completions", "phase", "result"),
    [(2, None, "pass"), (2, "longtx", "fail"), (1, None, "fail")],
    ids=["of all", "of one", "ran"],
)
def test_second_completions_are_left_to_an_expectation_of_the_whole_run(
    tmp_path: Path, completions: int, phase: str | None, result: str
) -> None:
    row = [7, 2, completions, "worker-1, worker-2", False, "why"]
    record = with_expectation(metric="duplicates.count", phase=phase, at_least=1)
    run = make_run(tmp_path, record, duplicates=pd.DataFrame([row], columns=EMPTY["duplicates"]))
    assert result_of(judge(run), "duplicates")[0] == result


def test_what_the_queue_tried_again_is_told(tmp_path: Path) -> None:
    errors = pd.DataFrame([["longtx", "worker-1", "retried", "1213", "complete", 3]], columns=EMPTY["errors"])
    found = result_of(judge(make_run(tmp_path, errors=errors)), "errors")
    assert found == ("pass", "calls raised: 3 x 1213 in complete, tried again")


@pytest.mark.parametrize(
    ("role", "intended", "exit_code", "result"),
    [
        ("worker", "stopped", 0, "pass"),
        ("worker", "stopped", 3, "fail"),
        ("worker", "running", -9, "fail"),
        ("worker", "killed", -9, "pass"),
        ("observer", "running", -9, "pass"),  # who looks on has no part in the run
    ],
)
def test_a_process_must_end_as_intended(tmp_path: Path, role: str, intended: str, exit_code: int, result: str) -> None:
    process = {"name": "one", "role": role, "end_ns": START_NS, "intended": intended, "exit_code": exit_code}
    assert result_of(judge(make_run(tmp_path, make_record(processes=[process]))), "processes")[0] == result


@pytest.mark.parametrize(("rate", "result"), [(100.4, "pass"), (99.6, "pass"), (97.0, "fail"), (103.0, "fail")])
def test_the_load_must_be_what_it_says_it_is(tmp_path: Path, rate: float, result: str) -> None:
    record = make_record()
    record["scenario"]["producers"]["max_batch"] = 1
    verdict = judge(make_run(tmp_path, record, phases=make_phases({("longtx", "enqueued.rate"): rate})))
    (finding,) = [finding for finding in verdict.findings if finding.subject == "load in longtx"]
    assert finding.result == result


def test_a_job_whose_call_raised_was_offered_all_the_same(tmp_path: Path) -> None:
    record = make_record()
    (phase,) = [phase for phase in record["phases"] if phase["name"] == "longtx"]
    length_s = (phase["end_ns"] - phase["start_ns"]) / 1e9
    raised = pd.DataFrame([["longtx", "producer-1", "error", "26000", "enqueue", int(40 * length_s)]], columns=EMPTY["errors"])
    run = make_run(tmp_path, record, errors=raised, phases=make_phases({("longtx", "enqueued.rate"): 60.0}))
    (finding,) = [finding for finding in judge(run).findings if finding.subject == "load in longtx"]
    assert finding.result == "pass"
    assert finding.found.startswith("60.0 jobs/s and 40.0 whose call raised, ")


@pytest.mark.parametrize(("count", "result"), [(1, "fail"), (2, "pass"), (3, "pass")])
def test_each_producer_may_have_a_batch_in_hand_where_a_phase_ends(tmp_path: Path, count: int, result: str) -> None:
    record = make_record()
    (phase,) = [phase for phase in record["phases"] if phase["name"] == "longtx"]
    jobs_s = 1e9 / (phase["end_ns"] - phase["start_ns"])
    record["scenario"]["producers"] |= {"rate": 10 * jobs_s, "max_batch": 1, "count": count}
    verdict = judge(make_run(tmp_path, record, phases=make_phases({("longtx", "enqueued.rate"): 8.01 * jobs_s})))
    (finding,) = [finding for finding in verdict.findings if finding.subject == "load in longtx"]
    assert finding.result == result


def test_a_silent_process_makes_the_records_unknown(tmp_path: Path) -> None:
    process = {"name": "worker-2", "role": "worker", "end_ns": START_NS, "intended": "stopped", "exit_code": 0}
    verdict = judge(make_run(tmp_path, make_record(processes=[process])))
    assert result_of(verdict, "records") == ("unknown", "nothing is recorded of worker-2")


@pytest.mark.parametrize("status", ["aborted", "failed", "running"])
def test_a_run_that_did_not_complete_never_passes(tmp_path: Path, status: str) -> None:
    verdict = judge(make_run(tmp_path, make_record(status=status, reason="because")))
    assert (verdict.status, verdict.verdict) == (status, "unknown")
    assert verdict.reason == f"the run was {status}: because"


def test_a_check_that_breaks_is_unknown_and_stops_no_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def break_down(self: object, run: RunTables) -> list[Any]:
        raise ZeroDivisionError("by zero")

    monkeypatch.setattr(find_checks()["order"], "judge", break_down)
    verdict = judge(make_run(tmp_path))
    assert result_of(verdict, "order") == ("unknown", "the check broke: ZeroDivisionError: by zero")
    assert result_of(verdict, "conservation")[0] == "pass"
    assert verdict.verdict == "unknown"


@pytest.mark.parametrize(
    ("intended", "exit_code", "said", "result"),
    [
        ("stopped", 0, "pass", ("pass", "producer-1: all bounds of Locust hold")),
        ("stopped", 1, "fail", ("fail", "producer-1: response time p95 is 7 ms; expected at most 5")),
        ("stopped", 1, None, ("unknown", "producer-1: Locust did not say whether its test passed")),
        ("killed", -9, None, None),
    ],
)
def test_where_locusts_own_test_fails_the_verdict_does(
    tmp_path: Path, intended: str, exit_code: int, said: str | None, result: tuple[str, str] | None
) -> None:
    process = {"name": "producer-1", "role": "producer", "pid": 1, "start_ns": START_NS, "end_ns": START_NS + 1}
    process |= {"intended": intended, "exit_code": exit_code, "orderly_exit_codes": [0, 1]}
    tables = make_run(tmp_path, record=make_record(processes=[process]))
    if said:
        (tables.folder / "locust").mkdir()
        judgement = {
            "result": said,
            "requests": 100,
            "failures": 0,
            "response_ms": {"p95": 7},
            "bounds": {"max_failure_ratio": 0, "at_most_ms": {"p95": 5}},
            "reasons": ["response time p95 is 7 ms; expected at most 5"] if said == "fail" else [],
        }
        (tables.folder / "locust" / "producer-1.json").write_text(json.dumps(judgement))
    verdict = judge(tables)
    assert result_of(verdict, "processes")[0] == "pass"
    assert [(one.result, one.reason) for one in verdict.findings if one.check == "locust"] == ([result] if result else [])
