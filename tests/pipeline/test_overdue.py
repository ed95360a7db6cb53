"""Jobs that waited though it was their turn."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from stallbench.pipeline.overdue import make_overdue
from stallbench.records.events import Event
from tests.pipeline.conftest import ReadParts
from tests.synthetic_run import SyntheticRun, at_ns

Overdue = Callable[..., Any]


@pytest.fixture(scope="session")
def overdue(spark: SparkSession, read_parts: ReadParts) -> Overdue:
    """Return, of a run, the kinds of overdue jobs with their ids and the longest wait."""

    def make(run: SyntheticRun, final_snapshot: dict[int, str] | None = None) -> dict[str, tuple[list[int], float]]:
        parts = read_parts(run.write(final_snapshot=final_snapshot or {}))
        table = make_overdue(spark, parts.records.events, parts.jobs, parts.record, parts.axis)
        return {row["kind"]: (list(row["examples"]), row["longest_s"]) for row in table.collect()}

    return make


def of_a_queue(folder: Path, *, claims_survive_connection: bool = False, expiry_s: float | None = None) -> SyntheticRun:
    run = SyntheticRun(folder / "run", phases={"only": 20})
    run.record["queue"] |= {"claims_survive_connection": claims_survive_connection, "expiry_s": expiry_s}
    return run


def with_a_death(folder: Path, *, claimed_at_s: float = 2, died_at_s: float = 3, **queue: object) -> SyntheticRun:
    """Job 1 is claimed by a worker that dies at it; 2 comes at 8 s and is executed at once; the records end at 12 s."""
    run = of_a_queue(folder, **queue)  # type: ignore[arg-type]
    run.process("worker-2", exit_code=-9, end_s=died_at_s, intended="killed")
    run.enqueue(1, at_s=1).claim(1, at_s=claimed_at_s, by="worker-2")
    run.enqueue(2, at_s=8).execute(2, at_s=8.1)
    run.enqueue(3, at_s=12)
    return run


@pytest.mark.parametrize(("claimed_at_s", "is_passed_over"), [(3.9, False), (4.2, True)])
def test_a_job_is_passed_over_when_a_younger_one_was_claimed_a_second_before(
    overdue: Overdue, tmp_path: Path, claimed_at_s: float, is_passed_over: bool
) -> None:
    run = of_a_queue(tmp_path)
    run.enqueue(1, at_s=1).enqueue(2, at_s=2).execute(2, at_s=3).execute(1, at_s=claimed_at_s)
    assert ("passed_over" in overdue(run)) == is_passed_over


def test_one_that_is_never_claimed_is_passed_over_too(overdue: Overdue, tmp_path: Path) -> None:
    run = of_a_queue(tmp_path)
    run.enqueue(1, at_s=1).enqueue(2, at_s=2).execute(2, at_s=3).enqueue(3, at_s=9)
    ((jobs, longest_s),) = overdue(run, {1: "queued", 3: "queued"}).values()
    assert (jobs, longest_s) == ([1], pytest.approx(8))


def test_a_job_in_its_turn_may_wait_for_as_long_as_it_takes(overdue: Overdue, tmp_path: Path) -> None:
    run = of_a_queue(tmp_path)
    for job in range(1, 6):
        run.enqueue(job, at_s=job / 2)
        run.execute(job, at_s=job * 3)
    run.enqueue(6, at_s=4)
    assert overdue(run, {6: "queued"}) == {}


def test_jobs_that_were_enqueued_at_the_same_time_have_no_order(overdue: Overdue, tmp_path: Path) -> None:
    run = of_a_queue(tmp_path)
    run.enqueue(1, at_s=2).enqueue(2, at_s=3, took_ms=1500).execute(2, at_s=4).execute(1, at_s=9)
    assert overdue(run) == {}


def test_a_claim_that_itself_takes_long_does_not_pass_its_job_over(overdue: Overdue, tmp_path: Path) -> None:
    run = of_a_queue(tmp_path)
    run.enqueue(1, at_s=1).enqueue(2, at_s=2).execute(2, at_s=3)
    run.claim(1, at_s=9, took_ms=6500).work(1, at_s=9.1).complete(1, at_s=9.2)
    assert overdue(run) == {}


@pytest.mark.parametrize(("held", "kind"), [("claimed", "held_for_the_dead"), ("queued", "left_behind")])
def test_a_job_of_a_dead_worker_is_due_when_its_connection_is_gone(
    overdue: Overdue, tmp_path: Path, held: str, kind: str
) -> None:
    run = with_a_death(tmp_path)
    assert overdue(run, {1: held, 3: "queued"}) == {kind: ([1], pytest.approx(8))}


@pytest.mark.parametrize(
    ("held", "expiry_s", "kind", "longest_s"),
    [
        ("claimed", 3, "held_for_the_dead", 6),
        ("claimed", 30, "not_yet_due", 9),
        ("claimed", None, "not_yet_due", 9),
        ("queued", 3, "left_behind", 6),
        ("queued", 30, "available_again", 9),
    ],
)
def test_a_claim_that_outlives_its_connection_is_due_when_its_time_is_over(
    overdue: Overdue, tmp_path: Path, held: str, expiry_s: float | None, kind: str, longest_s: float
) -> None:
    run = with_a_death(tmp_path, claims_survive_connection=True, expiry_s=expiry_s)
    assert overdue(run, {1: held, 3: "queued"}) == {kind: ([1], pytest.approx(longest_s))}


@pytest.mark.parametrize(("expiry_s", "kind"), [(3, "held_for_the_dead"), (30, "not_yet_due")])
def test_a_job_whose_claim_the_dead_worker_did_not_record_counts_from_the_last_death(
    overdue: Overdue, tmp_path: Path, expiry_s: float, kind: str
) -> None:
    run = of_a_queue(tmp_path, claims_survive_connection=True, expiry_s=expiry_s)
    run.process("worker-2", exit_code=-9, end_s=3, intended="killed")
    run.enqueue(1, at_s=1).live(2, at_s=8).enqueue(3, at_s=12)
    found = overdue(run, {1: "claimed", 3: "queued"})
    assert found[kind][0] == [1]


def test_a_job_that_a_living_worker_has_is_not_one_of_the_dead(overdue: Overdue, tmp_path: Path) -> None:
    run = of_a_queue(tmp_path, claims_survive_connection=True, expiry_s=30)
    run.process("worker-2", exit_code=-9, end_s=3, intended="killed")
    run.enqueue(1, at_s=1).claim(1, at_s=2).enqueue(2, at_s=8)
    assert overdue(run, {1: "claimed", 2: "queued"}) == {}


def test_nothing_is_due_while_a_fault_is_active(overdue: Overdue, tmp_path: Path) -> None:
    run = with_a_death(tmp_path)
    times = {"start_ns": at_ns(2), "verified_ns": at_ns(2), "end_ns": at_ns(11.5), "verified_gone_ns": at_ns(11.5)}
    run.record["injections"] = [
        {"name": "kill-1", "category": "fault", "kind": "kill", "on": "workers", "phase": "only", **times}
    ]
    assert list(overdue(run, {1: "claimed", 3: "queued"})) == ["not_yet_due"]


@pytest.mark.parametrize(("last_end_s", "is_due"), [(10.5, True), (11.5, False)])
def test_many_faults_that_follow_one_another_postpone_a_job_like_one(
    overdue: Overdue, tmp_path: Path, last_end_s: float, is_due: bool
) -> None:
    """The worker dies at 3 s, during one of 40 faults; each of them begins when the previous one ends."""
    run = with_a_death(tmp_path)
    faults = 40
    ends_s = [2 + (last_end_s - 2) * (number + 1) / faults for number in range(faults)]
    for number, (begin_s, end_s) in enumerate(pairwise([2, *ends_s]), start=1):
        times = {
            "start_ns": at_ns(begin_s),
            "verified_ns": at_ns(begin_s),
            "end_ns": at_ns(end_s),
            "verified_gone_ns": at_ns(end_s),
        }
        run.record["injections"].insert(
            0, {"name": f"kill-{number}", "category": "fault", "kind": "kill", "on": "workers", "phase": "only", **times}
        )
    assert list(overdue(run, {1: "claimed", 3: "queued"})) == ["held_for_the_dead" if is_due else "not_yet_due"]


@pytest.mark.parametrize("by", ["worker-1", "worker-2"], ids=["another worker", "a replacement of the same name"])
def test_a_job_of_a_dead_worker_that_was_re_executed_is_offered_again(overdue: Overdue, tmp_path: Path, by: str) -> None:
    run = with_a_death(tmp_path)
    run.execute(1, at_s=11, by=by)
    assert overdue(run, {3: "queued"}) == {"offered_again": ([1], pytest.approx(8))}


def test_a_job_that_the_worker_had_ended_before_it_died_is_none_of_its_jobs(overdue: Overdue, tmp_path: Path) -> None:
    run = of_a_queue(tmp_path)
    run.process("worker-2", exit_code=-9, end_s=5, intended="killed")
    run.enqueue(1, at_s=1).claim(1, at_s=2, by="worker-2").event(Event.FAILED, at_s=3, by="worker-2", job=1)
    run.execute(1, at_s=7)
    assert overdue(run, {}) == {}


@pytest.mark.parametrize("held", ["claimed", "queued"])
def test_a_queue_that_never_rescues_jobs_has_none_to_offer_again(overdue: Overdue, tmp_path: Path, held: str) -> None:
    run = with_a_death(tmp_path)
    run.record["queue"]["rescues_jobs"] = False
    assert overdue(run, {1: held, 3: "queued"}) == {}


@pytest.mark.parametrize(("attempt_limit", "kind"), [(None, "left_behind"), (1, "out_of_attempts"), (2, "left_behind")])
def test_a_job_that_has_reached_the_attempt_limit_is_not_left_behind(
    overdue: Overdue, tmp_path: Path, attempt_limit: int | None, kind: str
) -> None:
    run = with_a_death(tmp_path)
    run.record["queue"]["attempt_limit"] = attempt_limit
    assert list(overdue(run, {1: "queued", 3: "queued"})) == [kind]


def test_a_queue_that_promises_at_most_once_may_forget(overdue: Overdue, tmp_path: Path) -> None:
    run = with_a_death(tmp_path)
    run.record["queue"]["promise"] = "at_most_once"
    assert overdue(run, {1: "claimed", 3: "queued"}) == {}


def test_without_the_end_of_claims_in_the_run_nothing_is_overdue(overdue: Overdue, tmp_path: Path) -> None:
    run = with_a_death(tmp_path)
    del run.record["queue"]["claims_survive_connection"]
    assert overdue(run, {1: "claimed", 3: "queued"}) == {}
