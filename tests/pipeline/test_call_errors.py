"""Errors of calls belong to the faults that were active during the call, or shortly before it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from stallbench.pipeline.call_errors import compute_grace_s, make_errors
from stallbench.records.events import Event
from stallbench.run.record import parse_record
from tests.pipeline.conftest import ReadParts
from tests.synthetic_run import SyntheticRun, at_ns

FaultsOf = Callable[[SyntheticRun], list[tuple[list[str], int]]]
LOST = "57P01 in claim: terminating connection"


@pytest.fixture(scope="session")
def faults_of(spark: SparkSession, read_parts: ReadParts) -> FaultsOf:
    """Return the faults and the number of errors of each row."""

    def read(run: SyntheticRun) -> list[tuple[list[str], int]]:
        parts = read_parts(run.write(final_snapshot={}))
        rows = make_errors(parts.records.events, parts.axis, parts.record)
        return sorted((list(row["faults"]), row["count"]) for row in rows)

    return read


def with_faults(folder: Path, *faults: dict[str, Any]) -> SyntheticRun:
    """Return a run of a minute whose clients may get the errors of a fault until 12.01 s after its end."""
    run = SyntheticRun(folder / "run", phases={"first": 10, "second": 50})
    run.record["scenario"]["workers"] = {"work_s": 0.01, "poll_s": 0.005}
    run.record["injections"] = [
        {"category": "fault", "kind": "timeout", "on": "primary", "phase": "first"} | fault for fault in faults
    ]
    return run.live(1, at_s=1)


def between(name: str, from_s: float, to_s: float | None) -> dict[str, Any]:
    end_ns = None if to_s is None else at_ns(to_s)
    return {"name": name, "start_ns": at_ns(from_s), "end_ns": end_ns, "verified_gone_ns": end_ns}


CALLS = {
    "before": (2.9, 1, []),
    "just begun": (3.1, 1, ["down-1"]),
    "its end": (5.0, 1, ["down-1"]),
    "within the grace": (16.9, 1, ["down-1"]),
    "after it": (17.5, 1, []),
    "long after it": (40.0, 1, []),
    "a call that began within the grace": (40.0, 30_000, ["down-1"]),
    "a call that outlasted the fault": (40.0, 38_000, ["down-1"]),
}
"""When the call of an error ended, how long it took in ms, and the faults that it belongs to."""


@pytest.fixture(scope="module")
def of_calls(read_parts: ReadParts, tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[list[str]]]:
    """The faults of each of `CALLS`, in one run with a fault from 3 to 5 s. Each call has a worker of its own, and so a row."""
    run = with_faults(tmp_path_factory.mktemp("errors"), between("down-1", 3, 5))
    for number, (at_s, took_ms, _) in enumerate(CALLS.values()):
        run.event(Event.ERROR, at_s=at_s, by=f"worker-{number}", took_ms=took_ms, detail=LOST)
    parts = read_parts(run.write(final_snapshot={}))
    rows = make_errors(parts.records.events, parts.axis, parts.record)
    assert {row["count"] for row in rows} == {1}
    return {
        call: [list(row["faults"]) for row in rows if row["process"] == f"worker-{number}"] for number, call in enumerate(CALLS)
    }


@pytest.mark.parametrize("call", CALLS)
def test_an_error_belongs_to_a_fault_during_its_call_or_shortly_before(of_calls: dict[str, list[list[str]]], call: str) -> None:
    (_, _, faults) = CALLS[call]
    assert of_calls[call] == [faults]


@pytest.mark.parametrize(
    ("at_s", "phase", "latest_phase"),
    [
        (-0.5, None, None),
        (0.0, "first", "first"),
        (9.9, "first", "first"),
        (10.2, None, "first"),
        (10.5, "second", "second"),
        (60.0, None, "second"),
    ],
    ids=["before the first phase", "its begin", "its end", "between two phases", "the next phase", "after the last phase"],
)
def test_an_error_outside_the_phases_has_the_phase_that_had_begun_last(
    read_parts: ReadParts, tmp_path: Path, at_s: float, phase: str | None, latest_phase: str | None
) -> None:
    run = with_faults(tmp_path, between("down-1", 0, 5))
    run.record["phases"][1]["start_ns"] = at_ns(10.5)
    run.raise_error(LOST, at_s=at_s)
    parts = read_parts(run.write(final_snapshot={}))
    (row,) = make_errors(parts.records.events, parts.axis, parts.record)
    assert (row["phase"], row["latest_phase"]) == (phase, latest_phase)
    assert row["faults"] == (["down-1"] if 0 <= at_s < 17 else [])


def test_errors_at_the_same_faults_share_a_row(faults_of: FaultsOf, tmp_path: Path) -> None:
    run = with_faults(tmp_path, between("down-1", 3, 5), between("down-2", 4, 30))
    for at_s in (3.2, 3.4, 4.5, 4.6, 4.7):
        run.raise_error(LOST, at_s=at_s)
    assert faults_of(run) == [(["down-1"], 2), (["down-1", "down-2"], 3)]


def test_a_fault_without_a_recorded_end_lasts_to_the_end_and_one_that_never_began_explains_nothing(
    faults_of: FaultsOf, tmp_path: Path
) -> None:
    run = with_faults(tmp_path, between("down-1", 3, None), {"name": "down-2"})
    run.raise_error(LOST, at_s=55)
    assert faults_of(run) == [(["down-1"], 1)]


def test_without_a_verified_end_the_begin_of_its_end_counts(faults_of: FaultsOf, tmp_path: Path) -> None:
    run = with_faults(tmp_path, between("down-1", 3, 5) | {"verified_gone_ns": None})
    run.raise_error(LOST, at_s=16).raise_error(LOST, at_s=18)
    assert faults_of(run) == [([], 1), (["down-1"], 1)]


@pytest.mark.parametrize(
    ("producers", "workers", "longest_job_s", "grace_s"),
    [
        ({"rate": 100}, {"work_s": 0.01, "poll_s": 0.005}, None, 12.01),
        ({"rate": 0}, {"work_s": 3}, None, 15),
        ({"rate": 100}, {"work_s": 0.01, "poll_s": 2, "max_poll_s": 8}, None, 24),
        ({"rate": 0.5, "count": 2}, {"work_s": 0.01}, None, 16),
        ({"rate": 10, "kind": "locust", "users": 50}, {"work_s": 0.01}, None, 17),
        ({"rate": 100}, {"work_s": 0.01}, 8.0, 20),
    ],
    ids=["busy", "long jobs", "idle workers", "rare jobs", "users", "jobs that a fault makes long"],
)
def test_the_grace_is_a_reconnection_and_the_longest_time_without_a_call(
    tmp_path: Path, producers: dict[str, Any], workers: dict[str, Any], longest_job_s: float | None, grace_s: float
) -> None:
    run = with_faults(tmp_path, {"name": "slow_partner-1", "kind": "slow_partner", "longest_job_s": longest_job_s})
    run.record["scenario"] |= {"producers": producers, "workers": workers}
    record = parse_record((run.write(final_snapshot={}) / "run.json").read_text(), "run.json")
    assert compute_grace_s(record) == pytest.approx(grace_s)
