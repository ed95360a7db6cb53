"""Each promise of a queue's operations is broken by a queue that is wrong in one place, and says what is wrong."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from stallbench.queues import find_queue
from stallbench.queues.queue import Queue
from stallbench.studies.conformance.operations import try_promise
from stallbench.studies.conformance.promise import OpenQueue
from stallbench.studies.conformance.promises import PROMISES
from tests.integration.conftest import EmptyOn

pytestmark = pytest.mark.integration

FAILED = "a failed job is kept and delayed"
OFFERED_AGAIN = "a failed job is kept and offered again"
EXPIRED = "a job whose claim has expired counts as waiting and is given to another worker"
AT_THE_SAME_TIME = "jobs that are enqueued and claimed at the same time are each claimed once"
EXCLUSIVE = "a claimed job is given to no other worker"
PAYLOAD = "a claim carries the payload"
KEYS = "a job whose key another one has is refused"
SCHEDULER = "an iteration of the scheduler loses, repeats and releases no job"


def fail_without_commit(queue: Any) -> None:
    queue.fail = lambda claim, error: queue.execute(f"fail_{claim.handle[0]}", error.encode(), claim.handle[1])


DEFECTS: dict[str, tuple[str, str | Callable[[Any], None], str, str, str, str]] = {
    # the queue, its statement, what is replaced in it, by what, the promise, and what is said
    "no lock": ("status_column", "claim", "FOR UPDATE SKIP LOCKED", "", AT_THE_SAME_TIME, "were claimed more than once"),
    "a failure is committed with the next statement": (
        "rotating_tables",
        fail_without_commit,
        "",
        "",
        FAILED,
        "after the failure of one",
    ),
    "a failure delays other jobs": (
        "rotating_tables",
        "fail_0",
        "AND job_id",
        "OR job_id",
        FAILED,
        "the number of jobs of a claim",
    ),
    "a failed job never comes back": ("status_column", "fail", "'1 second'", "'1 day'", FAILED, "could not be claimed within"),
    "a failed job counts no attempt": ("skip_locked", "fail", "attempts = attempts + 1, ", "", FAILED, "the attempt of job 1"),
    "a failure is no attempt": (
        "insert_only_log",
        "reappend",
        "e.attempts + 1",
        "e.attempts",
        OFFERED_AGAIN,
        "the attempt of job 1",
    ),
    "completed jobs expire": (
        "status_column",
        "rescue",
        "status = 'claimed' AND ",
        "",
        EXPIRED,
        "the job that the other worker claims",
    ),
    "attempts begin at 2": (
        "status_column",
        "claim",
        "attempts + 1",
        "attempts + 2",
        PAYLOAD,
        "the attempt of the first claim: found 2",
    ),
    "claimed jobs count for the age": (
        "status_column",
        "backlog",
        "claimed_at <= ",
        "claimed_at > ",
        EXCLUSIVE,
        "what waits while both",
    ),
    "a key is not unique": ("unique_jobs", "index_unique", "UNIQUE", "", KEYS, ""),
    "the scheduler releases claims": (
        "batch_claim",
        "age",
        "SET priority = priority - 1 WHERE status = 'ready' AND",
        "SET status = 'ready' WHERE",
        SCHEDULER,
        "whether each job is claimed after two iterations",
    ),
}


class OpenDefectiveQueue(OpenQueue):
    """Opens a queue with one change."""

    change: Callable[[Any], None]

    def __call__(self, **options: object) -> Queue[Any]:
        queue = super().__call__(**options)
        self.change(queue)
        return queue


@pytest.mark.parametrize("name", DEFECTS)
def test_a_defect_breaks_the_promise(name: str, empty_on: EmptyOn, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("stallbench.studies.conformance.promise.PATIENCE_S", 3.0)  # for what never comes
    kind, what, before, after, broken, said = DEFECTS[name]

    def change(queue: Any) -> None:
        if not isinstance(what, str):
            what(queue)
            return
        assert before in queue.statements[what]
        queue.statements = {**queue.statements, what: queue.statements[what].replace(before, after)}

    (promise,) = (each for each in PROMISES if each.name == broken)
    assert promise.find_obstacle(find_queue(kind)) is None
    open_one = OpenDefectiveQueue(kind, {}, empty_on("postgres"))
    open_one.change = change
    outcome = try_promise(promise, open_one)
    assert outcome.result == "fail"
    assert said in outcome.reason
