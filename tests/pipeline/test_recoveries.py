"""How the queue came back after a fault, from made-up seconds and jobs: an outage from second 10 to second 15."""

from __future__ import annotations

import json
import random
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from pyspark.sql import DataFrame, SparkSession

from stallbench.pipeline.jobs_by_time import count_jobs
from stallbench.pipeline.recoveries import EndedFault, list_ended_faults, list_moments, make_recoveries, make_recovery_metrics
from stallbench.pipeline.time_axis import TimeAxis, make_time_axis
from stallbench.records.injections import InjectionRecord
from stallbench.run.record import RunRecord, parse_record
from tests.synthetic_run import START_NS, SyntheticRun

S = 10**9
RATE = 4
BASELINE_S, FAULT_S, LAST_S = 10, (10, 15), 30
ENQUEUED = ("enqueued_ns AS enqueue_began_ns", "first_claimed_ns AS first_claim_began_ns", "true AS enqueue_recorded")
"""What the other columns of a job follow from."""


def at(t_s: float) -> int:
    return START_NS + int(t_s * S)


def fault(name: str, from_s: float, to_s: float | None) -> InjectionRecord:
    end_ns = None if to_s is None else at(to_s)
    return InjectionRecord(
        name=name,
        category="fault",
        kind="down",
        on="primary",
        phase="outage",
        start_ns=at(from_s),
        end_ns=end_ns,
        verified_gone_ns=end_ns,
    )


def completed_at(t_s: float, silent_s: float) -> float:
    """When a job that is wanted at a time is completed: at once, or ``silent_s`` after the end of the outage, two at a time."""
    begin, end = FAULT_S
    if t_s < begin:
        return t_s + 0.1
    backlog = (t_s - begin) * RATE
    return max(t_s + 0.1, end + silent_s + backlog / (2 * RATE))


def recover(
    spark: SparkSession,
    faults: list[InjectionRecord],
    *,
    lost: int | None = None,
    unrecorded: tuple[int, ...] = (),
    again: tuple[float, ...] = (),
    comes_back: bool = True,
    silent_s: float = 0.25,
    backlog: int = 0,
    with_metrics: bool = False,
) -> list[Mapping[Any, Any]]:
    """Return the rows of a run with these faults, and with ``with_metrics`` the metrics of its phases behind them.

    ``backlog``: jobs that are there at the beginning, and are completed in the baseline in addition to those that become due.
    ``lost``: the job that is. ``unrecorded``: those whose completion was requested and not recorded. ``again``: when jobs were completed
    a second time. ``silent_s``: how long after the end of the outage the next job is completed.
    """
    jobs: list[Any] = []
    for number in range(LAST_S * RATE):
        wanted_s = number / RATE
        done_s = completed_at(wanted_s, silent_s)
        is_done = done_s < LAST_S and number != lost and number not in unrecorded and (comes_back or done_s < FAULT_S[0])
        state = "lost" if number == lost else "completed" if is_done else "queued"
        state = "completed_unrecorded" if number in unrecorded else state
        jobs.append((number, at(wanted_s), at(wanted_s), at(wanted_s), at(done_s) if is_done else None, state))
    for number in range(backlog):
        done_s = BASELINE_S * number / backlog
        jobs.append((1_000 + number, at(0), at(0), at(done_s), at(done_s), "completed"))
    done = [(row[4] - START_NS) // S for row in jobs if row[4] is not None]
    windows: list[Any] = [(t_s, done.count(t_s), 1 if t_s == FAULT_S[0] else 0) for t_s in range(LAST_S)]
    record, axis, ended = read_faults(faults)
    columns = "job_id long, intended_ns long, enqueued_ns long, first_claimed_ns long, first_completed_ns long, state string"
    by_time = count_jobs(
        spark.createDataFrame(jobs, columns).selectExpr("*", *ENQUEUED),
        axis,
        moments=list_moments(ended),
        again=spark.createDataFrame([(at(t_s),) for t_s in again], "t_ns long"),
        repeated=spark.createDataFrame([(at(t_s - 0.5),) for t_s in again], "claimed_ns long"),
    )
    of_windows = pd.DataFrame(windows, columns=["t_s", "completed", "errors"])
    recoveries = make_recoveries(ended, record, axis, by_time=by_time, windows=of_windows)
    rows = [recoveries.sort_values(["end_s", "fault"]), *([make_recovery_metrics(recoveries)] if with_metrics else [])]
    return [row for frame in rows for row in frame.astype("object").where(frame.notna(), None).to_dict("records")]


def test_recovery_counts_from_the_end_of_the_fault(spark: SparkSession) -> None:
    row, *metrics = recover(spark, [fault("down-1", *FAULT_S)], with_metrics=True)
    assert row["to_first_completion_s"] == pytest.approx(0.25)
    assert row["to_rate_s"] == 0, "from second 15 on more is completed than in the baseline"
    # 20 jobs waited at second 15; 8 a second are completed while 4 a second come.
    assert row["to_empty_backlog_s"] == pytest.approx(5, abs=1)
    assert (row["lost"], row["re_completed"], row["errors"]) == (0, 0, 1)
    assert {metric["phase"] for metric in metrics} == {"outage", "run"}
    values = {metric["statistic"]: metric["value"] for metric in metrics if metric["phase"] == "outage"}
    assert values == {key: row[f"{key}_s"] for key in ("to_first_completion", "to_rate", "to_empty_backlog")}


def test_the_rate_is_back_when_all_jobs_that_there_are_are_completed(spark: SparkSession) -> None:
    """A baseline in which a backlog is worked off has a rate that no later second can reach."""
    slow, *_ = recover(spark, [fault("latency-1", 22, 24)], backlog=60)
    assert slow["to_rate_s"] == 0, "four jobs a second are due, and four are completed"
    never, *_ = recover(spark, [fault("latency-1", 22, 24)], backlog=60, comes_back=False)
    assert never["to_rate_s"] is None


def test_the_rate_is_not_back_while_jobs_wait_and_fewer_are_completed_than_in_the_baseline(spark: SparkSession) -> None:
    """After the outage eight jobs a second are completed: fewer than the ten of this baseline, and 20 wait."""
    row, *_ = recover(spark, [fault("down-1", *FAULT_S)], backlog=60)
    assert 2 <= row["to_rate_s"] <= 5, "until hardly any waits"


def test_the_rate_is_not_back_before_a_job_is_completed(spark: SparkSession) -> None:
    row, *_ = recover(spark, [fault("down-1", *FAULT_S)], silent_s=2.5)
    assert row["to_first_completion_s"] == pytest.approx(2.5)
    assert row["to_rate_s"] == 2, "the second of that completion, not an earlier one from which three seconds have the mean"


def test_what_never_came_has_no_value(spark: SparkSession) -> None:
    row, *metrics = recover(spark, [fault("down-1", *FAULT_S)], comes_back=False, with_metrics=True)
    assert row["to_first_completion_s"] is row["to_rate_s"] is row["to_empty_backlog_s"] is None
    assert metrics == []


def test_what_was_lost_or_done_twice_is_laid_to_the_fault_before_it(spark: SparkSession) -> None:
    first, second, *_ = recover(spark, [fault("down-1", *FAULT_S), fault("kill-1", 24, 24)], lost=40, again=(12.0, 17.0, 25.0))
    assert (first["fault"], first["lost"], first["re_completed"], first["re_executed"]) == ("down-1", 1, 2, 2)
    assert (second["fault"], second["lost"], second["re_completed"], second["re_executed"]) == ("kill-1", 0, 1, 1)
    assert second["to_rate_s"] == 0


def test_a_lost_job_does_not_keep_the_backlog_open(spark: SparkSession) -> None:
    row, *_ = recover(spark, [fault("down-1", *FAULT_S)], lost=41)
    assert row["to_empty_backlog_s"] == pytest.approx(5, abs=1)


def test_jobs_whose_completion_was_not_recorded_do_not_keep_the_backlog_open(spark: SparkSession) -> None:
    row, *_ = recover(spark, [fault("down-1", *FAULT_S)], unrecorded=(41, 42, 43, 44, 45, 46))
    assert row["to_empty_backlog_s"] == pytest.approx(5, abs=1)


def test_a_fault_in_the_baseline_has_nothing_to_be_measured_against(spark: SparkSession) -> None:
    row, *_ = recover(spark, [fault("kill-1", 5, 5)])
    assert row["to_first_completion_s"] is not None
    assert row["to_rate_s"] is row["to_empty_backlog_s"] is None


def test_a_fault_whose_end_was_not_recorded_is_left_out(spark: SparkSession) -> None:
    assert recover(spark, [fault("down-1", 10, None)], with_metrics=True) == []


def test_a_recovery_is_not_that_of_a_fault_during_which_another_one_was_still_active(spark: SparkSession) -> None:
    pause, down, *metrics = recover(spark, [fault("pause-1", 9.5, 12), fault("down-1", *FAULT_S)], with_metrics=True)
    assert pause["to_first_completion_s"] is pause["to_rate_s"] is pause["to_empty_backlog_s"] is None
    assert (pause["next_change"], pause["next_change_s"]) == ("down-1 ended", 15)
    assert down["next_change"] is None
    assert down["to_first_completion_s"] == pytest.approx(0.25)
    values = {metric["statistic"]: metric["value"] for metric in metrics if metric["phase"] == "outage"}
    assert values["to_first_completion"] == pytest.approx(3.25), "an expectation must not be met because faults overlap"


def test_a_fault_that_the_queue_recovered_from_while_another_was_active_has_its_own_recovery(spark: SparkSession) -> None:
    down, latency, *_ = recover(spark, [fault("latency-1", 9, 25), fault("down-1", *FAULT_S)])
    assert down["to_first_completion_s"] == pytest.approx(0.25)
    assert down["to_empty_backlog_s"] == pytest.approx(5, abs=1)
    assert (down["next_change"], latency["next_change"]) == ("latency-1 ended", None)


def test_what_is_reached_only_after_the_next_fault_began_is_not_a_recovery_from_the_one_before(spark: SparkSession) -> None:
    down, *_ = recover(spark, [fault("down-1", *FAULT_S), fault("kill-1", 17, 17)])
    assert down["to_first_completion_s"] == pytest.approx(0.25)
    assert down["to_rate_s"] is None, "it takes three seconds to see the rate"
    assert down["to_empty_backlog_s"] is None
    assert (down["next_change"], down["next_change_s"]) == ("kill-1 began", 17)


def test_of_two_faults_that_end_at_the_same_moment_both_have_the_recovery(spark: SparkSession) -> None:
    first, second, *_ = recover(spark, [fault("down-1", *FAULT_S), fault("pause-1", 11, FAULT_S[1])])
    assert first["to_first_completion_s"] == second["to_first_completion_s"] == pytest.approx(0.25)


@pytest.fixture
def many_faults() -> list[InjectionRecord]:
    """Forty faults, some at the same time, some of them over at once."""
    draw = random.Random(1)
    begun = sorted(draw.choice((11, 12.5, 20, draw.uniform(10, 29))) for _ in range(40))
    return [fault(f"kill-{number}", from_s, from_s + draw.choice((0, 0.5, 3))) for number, from_s in enumerate(begun)]


def make_jobs(spark: SparkSession) -> tuple[list[Any], DataFrame]:
    """10 000 jobs that were completed or lost at some time, or neither, or at the moment of an end or a begin."""
    draw = random.Random(2)
    rows = []
    for number in range(10_000):
        t_ns = at(draw.choice((11, 12, 15.5, 20, draw.uniform(0, 30), draw.uniform(0, 30))))
        state = draw.choice(("completed", "completed", "lost", "queued"))
        claimed_ns = draw.choice((t_ns, None))
        rows.append((number, t_ns, t_ns, claimed_ns, t_ns if state == "completed" else None, state))
    columns = "job_id long, intended_ns long, enqueued_ns long, first_claimed_ns long, first_completed_ns long, state string"
    return rows, spark.createDataFrame(rows, columns).selectExpr("*", *ENQUEUED)


def test_first_completion_and_lost_jobs_of_many_faults_are_those_of_each_alone(
    spark: SparkSession, many_faults: list[InjectionRecord]
) -> None:
    record, axis, ended = read_faults(many_faults)
    rows, jobs = make_jobs(spark)
    windows = pd.DataFrame([(t_s, 0, 0) for t_s in range(LAST_S)], columns=["t_s", "completed", "errors"])
    by_time = count_jobs(jobs, axis, moments=list_moments(ended))
    recoveries = make_recoveries(ended, record, axis, by_time=by_time, windows=windows)
    first_s = recoveries["since_end_to_first_completion_s"].astype("object").where(lambda found_s: found_s.notna(), None)
    found = {fault: counted for fault, *counted in zip(recoveries["fault"], first_s, recoveries["lost"], strict=True)}
    expected = {}
    for each in ended:
        after_ns = [row[4] - each.end_ns for row in rows if row[4] is not None and row[4] >= each.end_ns]
        lost = [row for row in rows if row[5] == "lost" and each.start_ns - 5 * S <= row[2] < each.until_ns]
        expected[each.name] = [min(after_ns) / S if after_ns else None, len(lost)]
    assert found == expected
    assert max(lost for _, lost in found.values()) > 100


def read_faults(faults: list[InjectionRecord]) -> tuple[RunRecord, TimeAxis, list[EndedFault]]:
    """A run of 30 s with these faults."""
    run = SyntheticRun(Path("made-up"), phases={"baseline": BASELINE_S, "outage": LAST_S - BASELINE_S})
    run.record["injections"] = [fault.model_dump(mode="json") for fault in faults]
    record = parse_record(json.dumps(run.record), "made up")
    axis = make_time_axis(record, at(0), at(LAST_S) - 1)
    return record, axis, list_ended_faults(record, axis)
