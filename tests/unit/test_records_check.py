"""The check "records": torn lines fail, silent processes and collectors are unknown, and a killed process may tear its last line."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from tests.unit.made_up_run import find_of, make_process, make_record, make_run, write_samples


def worker(**changes: Any) -> dict[str, Any]:
    return make_process(str(changes.pop("name", "worker-1")), **changes)


def collectors(**changes: Any) -> dict[str, Any]:
    return make_process("collectors", **changes)


def torn(file: str, lines: int, *, last: bool) -> pd.DataFrame:
    files = dict.fromkeys(["events/worker-1.csv", file], (0, False)) | {file: (lines, last)}
    rows = [{"file": name, "lines": 10, "torn_lines": lines, "last_line_torn": last} for name, (lines, last) in files.items()]
    return pd.DataFrame(rows)


def test_records_without_torn_lines_pass(tmp_path: Path) -> None:
    finding = find_of(make_run(tmp_path, make_record(processes=[worker()])), "records")
    assert (finding.result, finding.reason) == ("pass", "10 records, none torn")


@pytest.mark.parametrize(
    ("process", "lines", "last", "result"),
    [
        (worker(intended="killed", exit_code=-9), 1, True, "pass"),
        (worker(intended="running", exit_code=-9), 1, True, "pass"),
        (worker(intended="killed", exit_code=-9), 2, True, "fail"),
        (worker(intended="killed", exit_code=-9), 1, False, "fail"),
        (worker(), 1, True, "fail"),
    ],
    ids=["killed by a fault", "killed by something else", "also another line", "not the last line", "not killed"],
)
def test_only_a_killed_process_may_tear_its_last_line(
    tmp_path: Path, process: dict[str, Any], lines: int, last: bool, result: str
) -> None:
    record = make_record(processes=[process])
    run = make_run(tmp_path, record, torn=torn("events/worker-1.csv", lines, last=last))
    assert find_of(run, "records").result == result


def test_the_files_with_torn_lines_are_named(tmp_path: Path) -> None:
    run = make_run(tmp_path, make_record(processes=[worker()]), torn=torn("events/worker-1.csv", 2, last=False))
    assert find_of(run, "records").reason == "2 torn lines in events/worker-1.csv"


@pytest.mark.parametrize(("exit_code", "result"), [(0, "fail"), (-9, "pass")])
def test_the_collectors_process_writes_all_samples(tmp_path: Path, exit_code: int, result: str) -> None:
    record = make_record(processes=[worker(), collectors(exit_code=exit_code)])
    assert find_of(make_run(tmp_path, record, torn=torn("samples/host.csv", 1, last=True)), "records").result == result


def test_a_run_that_broke_off_may_have_torn_last_lines(tmp_path: Path) -> None:
    record = make_record(processes=[worker(end_ns=None, exit_code=None)], status="failed", reason="the bench was killed")
    run = make_run(tmp_path, record, torn=torn("events/worker-1.csv", 1, last=True))
    assert find_of(run, "records").result == "pass"


def test_a_process_without_events_makes_the_records_unknown(tmp_path: Path) -> None:
    run = make_run(tmp_path, make_record(processes=[worker(name="worker-2")]))
    finding = find_of(run, "records")
    assert (finding.result, finding.reason) == ("unknown", "no events of worker-2")


@pytest.mark.parametrize(("intended", "result"), [("killed", "pass"), ("restarted", "pass"), ("running", "unknown")])
def test_a_process_that_a_fault_kills_in_its_first_call_or_that_could_not_start_has_no_events(
    tmp_path: Path, intended: str, result: str
) -> None:
    record = make_record(processes=[worker(), worker(name="worker-1-2", intended=intended, exit_code=-9)])
    assert find_of(make_run(tmp_path, record), "records").result == result


def test_a_run_before_a_collector_was_added_is_judged_by_those_it_had(tmp_path: Path) -> None:
    run = make_run(tmp_path, make_record() | {"collectors": None})
    (tmp_path / "samples" / "horizon.csv").unlink()
    rows = (tmp_path / "samples" / "own_cost.csv").read_text().splitlines()
    (tmp_path / "samples" / "own_cost.csv").write_text("\n".join(row for row in rows if "horizon" not in row))
    assert find_of(run, "records").result == "pass"


@pytest.mark.parametrize("how", ["failing", "missing"])
def test_a_collector_without_samples_makes_the_records_unknown(tmp_path: Path, how: str) -> None:
    run = make_run(tmp_path)
    write_samples(tmp_path, failing="horizon" if how == "failing" else "", missing="horizon" if how == "missing" else "")
    finding = find_of(run, "records")
    assert (finding.result, finding.reason) == ("unknown", "no samples of the collectors horizon")


@pytest.mark.parametrize(("failed", "result"), [(1, "pass"), (2, "unknown")])
def test_a_collector_whose_samples_mostly_failed_makes_the_records_unknown(tmp_path: Path, failed: int, result: str) -> None:
    run = make_run(tmp_path)
    write_samples(tmp_path, failing="host", failed=failed)
    finding = find_of(run, "records")
    assert finding.result == result
    if result == "unknown":
        assert finding.reason == "2 of 3 samples of the collector host failed"


def test_collectors_of_other_engines_are_not_missed(tmp_path: Path) -> None:
    run = make_run(tmp_path)
    assert not (tmp_path / "samples" / "innodb_deadlocks.csv").exists()
    assert find_of(run, "records").result == "pass"


def test_a_scenario_may_turn_the_collectors_off(tmp_path: Path) -> None:
    record = make_record()
    record["scenario"]["collectors"]["enabled"] = False
    run = make_run(tmp_path, record)
    write_samples(tmp_path, missing="horizon")
    assert find_of(run, "records").result == "pass"
