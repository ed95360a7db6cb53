"""The state of a published library's jobs: its workers record what their handlers do, but not the errors of the library's own calls."""

from __future__ import annotations

import pytest

from stallbench.pipeline.conservation import count_fates, make_conservation
from stallbench.pipeline.unrecorded_enqueues import explain_unrecorded
from stallbench.records.events import Event
from tests.pipeline.conftest import Parts, ReadParts
from tests.synthetic_run import SyntheticRun

COMPLETED, DONE, FAILED_AND_GONE, NEVER_DONE, STILL_HELD = range(1, 6)
LIBRARY = {"title": "River", "version": "1", "language": "go", "completion": "its event", "rescue": "its leader"}


@pytest.fixture(scope="module")
def states(read_parts: ReadParts, tmp_path_factory: pytest.TempPathFactory) -> dict[int, str]:
    run = SyntheticRun(tmp_path_factory.mktemp("library") / "run", phases={"baseline": 10})
    run.record["queue"]["library"] = LIBRARY
    for job in range(COMPLETED, STILL_HELD + 1):
        run.enqueue(job, at_s=0.1 + job / 100)
    run.execute(COMPLETED, at_s=1)
    run.claim(DONE, at_s=1.5).work(DONE, at_s=1.6)
    run.claim(FAILED_AND_GONE, at_s=2).work(FAILED_AND_GONE, at_s=2.1)
    run.event(Event.FAILED, at_s=2.2, by="worker-1", job=FAILED_AND_GONE)
    run.claim(NEVER_DONE, at_s=3)
    run.claim(STILL_HELD, at_s=4).work(STILL_HELD, at_s=4.1)
    jobs = read_parts(run.write(final_snapshot={STILL_HELD: "claimed"})).jobs
    return {row["job_id"]: row["state"] for row in jobs.select("job_id", "state").collect()}


def test_a_job_whose_handler_ended_is_not_lost_although_its_completion_was_not_recorded(states: dict[int, str]) -> None:
    assert states[DONE] == "completed_unrecorded"


@pytest.mark.parametrize("job", [FAILED_AND_GONE, NEVER_DONE])
def test_a_job_that_was_not_done_and_is_gone_is_lost(states: dict[int, str], job: int) -> None:
    assert states[job] == "lost"


def test_a_job_that_the_library_still_holds_is_claimed(states: dict[int, str]) -> None:
    assert (states[COMPLETED], states[STILL_HELD]) == ("completed", "claimed")


NOT_STORED, STORED, EXECUTED, CLAIMED_BY_THE_DEAD, OF_NOBODY = range(11, 16)


@pytest.fixture(scope="module")
def after_errors(read_parts: ReadParts, tmp_path_factory: pytest.TempPathFactory) -> Parts:
    """A run in which a producer got errors for four jobs, of which the library has stored three; a fifth job was enqueued by nobody."""
    run = SyntheticRun(tmp_path_factory.mktemp("errors") / "run", phases={"baseline": 10})
    run.record["queue"]["library"] = LIBRARY
    run.live(COMPLETED, at_s=0.1)
    for job in (NOT_STORED, STORED, EXECUTED, CLAIMED_BY_THE_DEAD):
        run.event(
            Event.ERROR, at_s=6, by="producer-1", job=job, intended_s=1, took_ms=5000, detail="AdapterError in enqueue: no answer"
        )
    run.raise_error("08006 in connect: refused", at_s=6.1, by="producer-1")
    run.execute(EXECUTED, at_s=2).claim(CLAIMED_BY_THE_DEAD, at_s=3)
    return read_parts(run.write(final_snapshot={STORED: "queued", CLAIMED_BY_THE_DEAD: "claimed", OF_NOBODY: "queued"}))


def test_the_number_of_a_failed_enqueue_shows_later_whether_the_job_was_stored(after_errors: Parts) -> None:
    rows = after_errors.jobs.select("job_id", "state", "enqueue_failed").collect()
    assert {row["job_id"]: row["state"] for row in rows} == {
        COMPLETED: "completed",
        STORED: "queued",
        EXECUTED: "completed",
        CLAIMED_BY_THE_DEAD: "claimed",
        OF_NOBODY: "queued",
    }
    assert {row["job_id"] for row in rows if row["enqueue_failed"]} == {STORED, EXECUTED, CLAIMED_BY_THE_DEAD}


def test_a_failed_enqueue_excuses_only_the_jobs_that_its_errors_name(after_errors: Parts) -> None:
    unrecorded = explain_unrecorded(after_errors.jobs, after_errors.records, after_errors.record)
    rows = make_conservation(count_fates(after_errors.jobs), unrecorded=unrecorded).set_index("state")
    examples = dict(rows["examples"])
    assert examples["enqueue_unrecorded"] == [STORED, EXECUTED, CLAIMED_BY_THE_DEAD]
    assert examples["unexpected"] == [OF_NOBODY]
    assert rows["jobs"]["enqueued"] == 1
