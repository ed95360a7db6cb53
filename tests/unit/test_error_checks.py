"""The checks on errors, deadlocks and advisory locks: errors need an explanation, and missing samples are no pass."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from tests.unit.made_up_run import (
    EMPTY,
    find_of,
    make_fault,
    make_phases,
    make_record,
    make_record_with_expectation,
    make_run,
    make_windows,
)

pytestmark = pytest.mark.slow


def errors_of(
    kind: str,
    operation: str = "claim",
    *,
    phase: str | None = "longtx",
    latest_phase: str | None = "longtx",
    event: str = "error",
    faults: tuple[str, ...] = ("timeout-1",),
    count: int = 3,
) -> pd.DataFrame:
    row = [phase, phase or latest_phase, "worker-1", event, kind, operation, list(faults), count]
    return pd.DataFrame([row], columns=EMPTY["errors"])


def windows_with_deadlocks(*counts: float | None) -> pd.DataFrame:
    """Return the windows of samples between which the server broke that many deadlocks; None is a second without a sample."""
    return pd.DataFrame({"t_s": range(len(counts)), "deadlocks_count": pd.Series(counts, dtype="float64")})


def record_with_fault(kind: str, phase: str) -> dict[str, Any]:
    return make_record(injections=[{**make_fault(phase), "kind": kind}])


@pytest.mark.parametrize(
    ("fault", "kind", "result"),
    [
        ("timeout", "OperationalError", "pass"),
        ("timeout", "NoAnswer", "pass"),
        ("alter_table", "NoAnswer", "pass"),
        ("kill", "NoAnswer", "fail"),
        ("timeout", "ShopIsClosedError", "fail"),
        ("timeout", "ProducerEnded", "fail"),
        ("timeout", "40P01", "fail"),
        ("timeout", "23505", "fail"),
        ("alter_table", "55P03", "pass"),
        ("alter_table", "OperationalError", "fail"),
        ("full_disk", "53100", "pass"),
        ("kill", "OperationalError", "fail"),
        ("a kind that is no longer installed", "OperationalError", "fail"),
    ],
)
def test_a_fault_explains_only_its_own_kinds_of_errors(tmp_path: Path, fault: str, kind: str, result: str) -> None:
    run = make_run(tmp_path, record_with_fault(fault, "longtx"), errors=errors_of(kind))
    assert find_of(run, "errors").result == result


@pytest.mark.parametrize(("faults", "result"), [(("timeout-1",), "pass"), ((), "fail"), (("timeout-2",), "fail")])
def test_a_fault_explains_only_errors_of_its_own_time(tmp_path: Path, faults: tuple[str, ...], result: str) -> None:
    run = make_run(tmp_path, make_record(injections=[make_fault("longtx")]), errors=errors_of("57P01", faults=faults))
    finding = find_of(run, "errors")
    assert finding.result == result
    assert finding.reason.endswith("errors: 3 x 57P01 (connection lost) in claim")
    assert finding.expected == "only errors that a fault or an expectation explains, until 12 s after the fault's end"


@pytest.mark.parametrize("column", ["faults", "latest_phase"])
def test_a_table_of_an_earlier_version_decides_nothing_and_says_what_to_do(tmp_path: Path, column: str) -> None:
    finding = find_of(make_run(tmp_path, errors=errors_of("57P01").drop(columns=column)), "errors")
    assert (finding.result, finding.reason) == (
        "unknown",
        f"the table errors was made by an earlier version and does not have the column {column}; "
        f"make the tables again: stallbench report {tmp_path}",
    )


def test_without_any_operation_nothing_is_known_of_errors(tmp_path: Path) -> None:
    nothing = make_windows(lambda _: 0.0, lambda _: None).assign(enqueued=0, claimed=0, completed=0)
    assert find_of(make_run(tmp_path, windows=nothing), "errors").result == "unknown"


def test_operations_without_errors_pass(tmp_path: Path) -> None:
    assert find_of(make_run(tmp_path), "errors").result == "pass"


@pytest.mark.parametrize(("options", "result"), [({"surge": 8}, "pass"), ({"surge": 0}, "fail"), ({}, "fail")])
def test_only_a_deployment_with_a_surge_explains_refused_connections(
    tmp_path: Path, options: dict[str, Any], result: str
) -> None:
    record = make_record(injections=[{**make_fault("longtx"), "kind": "deploy", "on": "workers", "options": options}])
    assert find_of(make_run(tmp_path, record, errors=errors_of("53300", "connect")), "errors").result == result


def test_the_errors_that_nothing_explains_are_named_first(tmp_path: Path) -> None:
    errors = pd.concat([errors_of("57P01", count=500), errors_of("40P01", count=2)])
    finding = find_of(make_run(tmp_path, record_with_fault("timeout", "longtx"), errors=errors), "errors")
    assert finding.reason == (
        "no fault explains 2 x 40P01 (deadlock) in claim; "
        "all errors: 500 x 57P01 (connection lost) in claim, 2 x 40P01 (deadlock) in claim"
    )


@pytest.mark.parametrize(
    ("metric", "kind", "operation", "result"),
    [
        ("errors.count", "1213", "complete", "pass"),
        ("errors.rate", "2013", "claim", "pass"),
        ("errors.count", "unheard of", "", "pass"),
        ("deadlocks.count", "1213", "complete", "pass"),
        ("deadlocks.count", "40P01", "claim", "pass"),
        ("deadlocks.count", "2013", "claim", "fail"),
        ("deadlocks.count", "53100", "enqueue", "fail"),
        ("deadlocks_in_complete.count", "1213", "complete", "pass"),
        ("deadlocks_in_complete.count", "1213", "claim", "fail"),
        ("deadlocks_in_claim.count", "1213", "claim", "pass"),
        ("deadlocks_in_enqueue.count", "1213", "enqueue", "pass"),
        ("retried.count", "1213", "complete", "fail"),
        ("retried.count", "40001", "claim", "fail"),
    ],
)
def test_an_expectation_judges_only_the_errors_that_its_measure_counts(
    tmp_path: Path, metric: str, kind: str, operation: str, result: str
) -> None:
    record = make_record_with_expectation(metric=metric, phase="longtx", at_most=4)
    assert find_of(make_run(tmp_path, record, errors=errors_of(kind, operation)), "errors").result == result


@pytest.mark.parametrize(
    ("metric", "bounds", "result"),
    [
        ("errors.count", {"at_most": 4}, "pass"),
        ("errors.count", {"at_least": 2}, "fail"),
        ("errors.count", {"at_least": 2, "at_most": 4}, "pass"),
        ("errors.count", {"at_least": 2, "codes": ["1213"]}, "pass"),
        ("errors.count", {"at_least": 2, "codes": ["1205"]}, "fail"),
        ("errors.count", {"at_most": 4, "codes": ["1205"]}, "fail"),
        ("errors.count", {"at_least": 2, "codes": ["1205", "1213"]}, "pass"),
        ("deadlocks.count", {"at_least": 2}, "pass"),
    ],
)
def test_an_expectation_that_any_error_meets_explains_none(
    tmp_path: Path, metric: str, bounds: dict[str, Any], result: str
) -> None:
    record = make_record_with_expectation(metric=metric, phase="longtx", **bounds)
    assert find_of(make_run(tmp_path, record, errors=errors_of("1213")), "errors").result == result


@pytest.mark.parametrize(
    ("codes", "latest_phase", "result"),
    [
        (None, None, "fail"),
        (None, "baseline", "fail"),
        (None, "longtx", "pass"),
        (None, "recovered", "fail"),
        (["1213"], None, "pass"),
        (["1213"], "baseline", "pass"),
        (["1213"], "recovered", "pass"),
        (["1205"], "baseline", "fail"),
    ],
)
def test_a_bound_for_the_whole_run_explains_no_error_of_an_unmeasured_start_or_end_and_codes_do(
    tmp_path: Path, codes: list[str] | None, latest_phase: str | None, result: str
) -> None:
    record = make_record_with_expectation(metric="errors.count", at_most=4, codes=codes)
    for phase in record["phases"]:
        phase["measured"] = phase["name"] == "longtx"
    errors = errors_of("1213", phase=None, latest_phase=latest_phase)
    assert find_of(make_run(tmp_path, record, errors=errors), "errors").result == result


@pytest.mark.parametrize(
    ("judged", "phase", "latest_phase", "result"),
    [
        ("longtx", "longtx", "longtx", "pass"),
        ("longtx", "recovered", "recovered", "fail"),
        ("longtx", None, "longtx", "pass"),
        ("recovered", None, "longtx", "fail"),
        ("longtx", None, "recovered", "fail"),
        ("recovered", None, "recovered", "pass"),
        ("baseline", None, None, "fail"),
        ("recovered", None, None, "fail"),
        (None, "baseline", "baseline", "pass"),
        (None, None, "recovered", "pass"),
        (None, None, None, "fail"),
    ],
)
def test_an_expectation_judges_its_own_phase_and_what_follows_until_the_next_one(
    tmp_path: Path, judged: str | None, phase: str | None, latest_phase: str | None, result: str
) -> None:
    record = make_record_with_expectation(metric="errors.count", phase=judged, at_most=4)
    errors = errors_of("1213", phase=phase, latest_phase=latest_phase)
    assert find_of(make_run(tmp_path, record, errors=errors), "errors").result == result


@pytest.mark.parametrize(
    ("kind", "latest_phase", "result"),
    [("57P01", "baseline", "pass"), ("40P01", "baseline", "fail"), ("57P01", "recovered", "pass"), ("57P01", None, "fail")],
    ids=["between phases", "of another kind", "after the last phase", "before the first phase"],
)
def test_errors_outside_the_phases_are_explained_by_the_faults_of_their_time_which_is_not_before_the_first_phase(
    tmp_path: Path, kind: str, latest_phase: str | None, result: str
) -> None:
    errors = errors_of(kind, phase=None, latest_phase=latest_phase)
    run = make_run(tmp_path, record_with_fault("timeout", "baseline"), errors=errors)
    assert find_of(run, "errors").result == result


def test_errors_that_the_queue_retried_are_reported_and_do_not_fail(tmp_path: Path) -> None:
    finding = find_of(make_run(tmp_path, errors=errors_of("1213", "complete", event="retried")), "errors")
    assert (finding.result, finding.reason) == ("pass", "errors: 3 x 1213 (deadlock) in complete, retried")


@pytest.mark.parametrize(("event", "count", "result"), [("error", 5, "pass"), ("retried", 5, "pass"), ("error", 4, "fail")])
def test_a_client_records_every_deadlock_that_the_server_broke(tmp_path: Path, event: str, count: int, result: str) -> None:
    errors = errors_of("1213", "complete", event=event, count=count)
    run = make_run(tmp_path, errors=errors, windows=windows_with_deadlocks(None, 2.0, 0.0, 3.0))
    assert find_of(run, "deadlocks").result == result


@pytest.mark.parametrize(
    ("counted", "recorded", "result"), [(14, 1245, "unknown"), (10, 21, "unknown"), (10, 20, "pass"), (0, 19, "pass")]
)
def test_a_server_that_counts_less_than_half_of_what_clients_recorded_decides_nothing(
    tmp_path: Path, counted: int, recorded: int, result: str
) -> None:
    errors = errors_of("1213", "complete", count=recorded)
    finding = find_of(make_run(tmp_path, errors=errors, windows=windows_with_deadlocks(float(counted))), "deadlocks")
    assert finding.result == result
    if result == "unknown":
        assert finding.reason == f"the server counted {counted} deadlocks, but clients recorded {recorded:,} errors for them"


@pytest.mark.parametrize(
    ("last_s", "result"), [(79, "pass"), (69, "pass"), (68, "unknown")], ids=["to the end", "ten seconds short", "eleven"]
)
def test_a_count_that_ends_before_the_operations_decides_nothing(tmp_path: Path, last_s: int, result: str) -> None:
    windows = make_windows(lambda _: 0.0, lambda _: 1.0)
    windows.loc[windows["t_s"] > last_s, "deadlocks_count"] = None
    finding = find_of(make_run(tmp_path, windows=windows), "deadlocks")
    assert finding.result == result
    if result == "unknown":
        assert finding.reason == "the count of deadlocks was not sampled in the last 11 s with operations"


@pytest.mark.parametrize(("ended", "broken", "result"), [(None, 1, "pass"), (None, 2, "fail"), (3, 4, "pass"), (3, 5, "fail")])
def test_a_fault_says_how_often_its_own_statements_were_ended(
    tmp_path: Path, ended: int | None, broken: int, result: str
) -> None:
    fault = make_fault("longtx") | {"evidence": {} if ended is None else {"ended_by_deadlock": ended}}
    run = make_run(tmp_path, make_record(injections=[fault]), windows=windows_with_deadlocks(float(broken)))
    finding = find_of(run, "deadlocks")
    assert finding.result == result
    assert finding.expected == f"at most {1 + (ended or 0)} {'deadlocks' if ended else 'deadlock'} that no client recorded"


@pytest.mark.parametrize(("engine", "result"), [("postgres", "unknown"), ("mariadb", "unknown"), ("redis", "info")])
def test_without_samples_deadlocks_are_unknown_where_the_engine_counts_them(tmp_path: Path, engine: str, result: str) -> None:
    record = make_record()
    record["scenario"]["database"]["engine"] = engine
    assert find_of(make_run(tmp_path, record, windows=windows_with_deadlocks(None)), "deadlocks").result == result


@pytest.mark.parametrize(("needed", "most", "result"), [(1, 1, "pass"), (1, 2, "fail"), (1, None, "unknown"), (0, None, "info")])
def test_a_session_holds_as_many_advisory_locks_as_its_queue_needs(
    tmp_path: Path, needed: int, most: int | None, result: str
) -> None:
    record = make_record()
    record["queue"]["advisory_locks"] = needed
    values = {} if most is None else {("run", "advisory_locks.max"): float(most)}
    assert find_of(make_run(tmp_path, record, phases=make_phases(values)), "advisory locks").result == result
