"""Executions and their excuses: a queue that promises at least once may execute a failed job again, one that promises at most once may not."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest

from stallbench.pipeline.duplicates import find_executions, make_duplicates
from stallbench.records.events import Event
from tests.pipeline.conftest import MakeTables, ReadParts, Tables
from tests.synthetic_run import SyntheticRun, at_ns

ONCE, COMPLETED_TWICE, AFTER_DEATH, AFTER_FAILURE, AFTER_EXPIRY, AFTER_ERROR, AFTER_COMPLETION = range(1, 8)
CLAIMED_TWICE_AT_ONCE, THRICE, UNRECORDED_CLAIM, READ_LATE, LOST_AFTER_COMPLETION = range(8, 13)
FAILED_AT_ONCE, GONE_AT_ONCE, DIED_AT_ONCE = range(13, 16)
"""Two workers had it at the same time."""
LOST = "OperationalError in complete: server closed the connection"


def describe_story(run: SyntheticRun) -> SyntheticRun:
    run.process("worker-2").process("worker-dead", exit_code=-9)
    for job in range(ONCE, DIED_AT_ONCE + 1):
        run.enqueue(job, at_s=0.5)
    run.execute(ONCE, at_s=1)
    # Both had it at the same time, and both finished: what Que does without its re-check.
    run.execute(COMPLETED_TWICE, at_s=1).execute(COMPLETED_TWICE, at_s=1.005, by="worker-2")
    run.claim(AFTER_DEATH, at_s=1, by="worker-dead").execute(AFTER_DEATH, at_s=12, by="worker-2")
    for job, end in ((AFTER_FAILURE, Event.FAILED), (AFTER_EXPIRY, Event.EXPIRED), (AFTER_ERROR, Event.ERROR)):
        run.claim(job, at_s=2).event(end, at_s=2.1, by="worker-1", job=job, detail="40P01 in complete: deadlock")
        run.execute(job, at_s=3, by="worker-2")
    run.execute(AFTER_COMPLETION, at_s=4)
    run.claim(AFTER_COMPLETION, at_s=5, by="worker-2")
    run.event(Event.FAILED, at_s=5.1, by="worker-2", job=AFTER_COMPLETION)
    run.claim(CLAIMED_TWICE_AT_ONCE, at_s=6).execute(CLAIMED_TWICE_AT_ONCE, at_s=6.1, by="worker-2")
    run.claim(THRICE, at_s=7, by="worker-dead")
    run.claim(THRICE, at_s=8).event(Event.FAILED, at_s=8.1, by="worker-1", job=THRICE).execute(THRICE, at_s=9, by="worker-2")
    run.complete(UNRECORDED_CLAIM, at_s=9).complete(UNRECORDED_CLAIM, at_s=9.5)
    # The backend of worker-1 was terminated before it had read which job it got; meanwhile worker-2 was given that job.
    run.execute(READ_LATE, at_s=10, by="worker-2").claim(READ_LATE, at_s=10.004, took_ms=10)
    run.event(Event.ERROR, at_s=10.006, by="worker-1", job=READ_LATE, detail=LOST)
    # Here worker-1 asked when worker-2 had the job already, so this claim was certainly the second.
    run.execute(LOST_AFTER_COMPLETION, at_s=11, by="worker-2").claim(LOST_AFTER_COMPLETION, at_s=11.004, took_ms=3)
    run.event(Event.ERROR, at_s=11.006, by="worker-1", job=LOST_AFTER_COMPLETION, detail=LOST)
    # These calls overlap, too, but nothing had taken the job from the worker that was given it first.
    for job, second in ((FAILED_AT_ONCE, "worker-1"), (GONE_AT_ONCE, "worker-1"), (DIED_AT_ONCE, "worker-dead")):
        run.execute(job, at_s=12, by="worker-2").claim(job, at_s=12.004, by=second, took_ms=10)
    run.event(Event.FAILED, at_s=12.006, by="worker-1", job=FAILED_AT_ONCE)
    run.event(Event.ERROR, at_s=12.006, by="worker-1", job=GONE_AT_ONCE, detail="P0002 in complete: no such job")
    return run


@pytest.fixture(scope="module")
def tables(make: MakeTables, tmp_path_factory: pytest.TempPathFactory) -> Tables:
    run = SyntheticRun(tmp_path_factory.mktemp("again") / "run", phases={"baseline": 10, "longtx": 10})
    return make(describe_story(run).write(final_snapshot={}))


@pytest.fixture(scope="module")
def duplicates(tables: Tables) -> pd.DataFrame:
    return tables("duplicates").set_index("job_id")


def test_only_jobs_that_were_executed_or_completed_again_are_listed(duplicates: pd.DataFrame) -> None:
    assert set(duplicates.index) == {
        COMPLETED_TWICE,
        AFTER_DEATH,
        AFTER_FAILURE,
        AFTER_EXPIRY,
        AFTER_ERROR,
        AFTER_COMPLETION,
        CLAIMED_TWICE_AT_ONCE,
        THRICE,
        UNRECORDED_CLAIM,
        READ_LATE,
        LOST_AFTER_COMPLETION,
        FAILED_AT_ONCE,
        GONE_AT_ONCE,
        DIED_AT_ONCE,
    }


@pytest.mark.parametrize(
    ("job", "reason"),
    [
        (AFTER_DEATH, "worker-dead died with it"),
        (AFTER_FAILURE, "worker-1 failed at it"),
        (AFTER_EXPIRY, "worker-1 had it until the claim expired"),
        (AFTER_ERROR, "worker-1 could not complete it"),
        (THRICE, "worker-dead died with it; worker-1 failed at it"),
        (READ_LATE, "worker-1 could not complete it"),
    ],
)
def test_at_least_once_allows_re_execution_after_a_failure(duplicates: pd.DataFrame, job: int, reason: str) -> None:
    assert duplicates.excused[job]
    assert duplicates.reason[job] == reason


@pytest.mark.parametrize(
    ("job", "reason"),
    [
        (COMPLETED_TWICE, "worker-1 had completed it"),
        (AFTER_COMPLETION, "worker-1 had completed it"),
        (CLAIMED_TWICE_AT_ONCE, "worker-1 had not finished it"),
        (UNRECORDED_CLAIM, "its claims are not recorded"),
        *((job, "worker-2 had completed it") for job in (LOST_AFTER_COMPLETION, FAILED_AT_ONCE, GONE_AT_ONCE, DIED_AT_ONCE)),
    ],
)
def test_nothing_excuses_a_second_execution_of_what_went_well(duplicates: pd.DataFrame, job: int, reason: str) -> None:
    assert not duplicates.excused[job]
    assert duplicates.reason[job] == reason


def test_executions_completions_and_the_executing_processes_are_listed(duplicates: pd.DataFrame) -> None:
    thrice = duplicates.loc[THRICE]
    assert (thrice.executions, thrice.completions) == (3, 1)
    assert thrice.processes == "worker-1, worker-2, worker-dead"


def test_second_completions_are_counted_in_the_phase_they_happened_in(tables: Tables) -> None:
    phases = tables("phases").query("measure == 're_completed'").set_index("phase")
    assert phases.value.to_dict() == {"baseline": 2, "longtx": 0, "run": 2}


def test_at_most_once_has_no_excuse(read_parts: ReadParts, tmp_path: Path) -> None:
    run = SyntheticRun(tmp_path / "run", promise="at_most_once")
    parts = read_parts(describe_story(run).write())
    executions = find_executions(parts.records.events, parts.record)
    duplicates = make_duplicates(parts.jobs, executions, parts.record).toPandas()
    assert len(duplicates) == 14
    assert not duplicates.excused.any()


EXPIRED_EARLY, EXPIRED_IN_TIME, EXPIRED_ON_A_WHOLE_SECOND, DIED_LATER, FAILED_LATER, COUNTED_TWICE = range(1, 7)
EXPIRY_S = 3.0


def describe_claims_that_expire(run: SyntheticRun) -> SyntheticRun:
    """Each job goes to worker-2 while worker-1, or the one that is to die, has it."""
    run.record["queue"] |= {"claims_survive_connection": True, "expiry_s": EXPIRY_S}
    run.process("worker-2").process("worker-dead", exit_code=-9)
    for job, second_s, end, end_s in (
        (EXPIRED_EARLY, 1.01, Event.EXPIRED, 1.02),
        (EXPIRED_IN_TIME, 4.1, Event.EXPIRED, 6),
        (EXPIRED_ON_A_WHOLE_SECOND, 3.05, Event.EXPIRED, 6),
        (FAILED_LATER, 1.01, Event.FAILED, 1.02),
        (COUNTED_TWICE, 4.1, Event.EXPIRED, 6),
    ):
        run.enqueue(job, at_s=0.5).claim(job, at_s=1).claim(
            job, at_s=second_s, by="worker-2", attempt=1 if job == COUNTED_TWICE else 2
        )
        run.event(end, at_s=end_s, by="worker-1", job=job)
    run.enqueue(DIED_LATER, at_s=0.5).claim(DIED_LATER, at_s=1, by="worker-dead").claim(
        DIED_LATER, at_s=1.01, by="worker-2", attempt=2
    )
    run.work(DIED_LATER, at_s=1.02, by="worker-dead")
    return run


@pytest.fixture(scope="module")
def expiring(read_parts: ReadParts, tmp_path_factory: pytest.TempPathFactory) -> pd.DataFrame:
    parts = read_parts(describe_claims_that_expire(SyntheticRun(tmp_path_factory.mktemp("expiry") / "run")).write())
    executions = find_executions(parts.records.events, parts.record)
    made = make_duplicates(parts.jobs, executions, parts.record, parts.records.last_recorded_ns)
    return made.toPandas().set_index("job_id")


@pytest.mark.parametrize(
    ("job", "reason"),
    [
        (EXPIRED_EARLY, "worker-1 had it until the claim expired, 0.011 s after it was made; it lasts 3 s"),
        (EXPIRED_IN_TIME, None),
        (EXPIRED_ON_A_WHOLE_SECOND, None),
        (DIED_LATER, "worker-dead died with it only after another worker had been given it"),
        (FAILED_LATER, "worker-1 failed at it only after another worker had been given it"),
    ],
)
def test_a_claim_is_in_force_until_its_time_is_over_or_its_worker_has_failed(
    expiring: pd.DataFrame, job: int, reason: str | None
) -> None:
    assert expiring.excused[job] == (reason is None)
    assert reason in (None, expiring.reason[job])


def test_each_attempt_has_its_own_number(expiring: pd.DataFrame) -> None:
    assert not expiring.attempts_ascend[COUNTED_TWICE]
    assert expiring.attempts[COUNTED_TWICE] == "1, 1"
    assert expiring.attempts_ascend.drop(COUNTED_TWICE).all()
    assert expiring.attempts[EXPIRED_IN_TIME] == "1, 2"


@pytest.mark.parametrize("excuse", ["a clock", "a batch", "a library", "its connection"])
def test_what_may_end_a_claim_before_its_time_excuses_that(read_parts: ReadParts, tmp_path: Path, excuse: str) -> None:
    run = describe_claims_that_expire(SyntheticRun(tmp_path / "run", phases={"baseline": 10}))
    queue = run.record["queue"]
    match excuse:
        case "a clock":
            at = {"start_ns": at_ns(0.9), "verified_ns": at_ns(0.9), "end_ns": at_ns(2), "verified_gone_ns": at_ns(2)}
            skew = {"name": "clock_skew-1", "category": "fault", "kind": "clock_skew", "on": "worker-2", "phase": "baseline"}
            run.record["injections"].append(skew | at)
        case "a batch":
            queue["claims_in_batches"] = True
        case "a library":
            queue["library"] = {"title": "x", "version": "1", "language": "y", "completion": "z", "rescue": "a claim"}
        case "its connection":
            queue["claims_survive_connection"] = False
    parts = read_parts(run.write())
    made = make_duplicates(
        parts.jobs, find_executions(parts.records.events, parts.record), parts.record, parts.records.last_recorded_ns
    )
    assert made.toPandas().set_index("job_id").excused[EXPIRED_EARLY]
