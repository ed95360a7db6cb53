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
LATER = "jobs are claimed in their order also later, and after a vacuum"
OVERTAKEN = "no job is overtaken for ever"
COUNTED = "what counts as waiting can be claimed"
LOCKS = "a worker keeps no advisory lock of a completed job"
LATE = "a worker whose claim has expired takes nothing from the next one"
NO_MORE = "a claim takes no more jobs than it is to"
AT_A_STOP = "a worker that stops gives back what it has not begun"
SLOW = "an operation that takes long loses, repeats and gives away no job"
ENDED = "the end of a connection within an operation loses and repeats no job"
GIVEN_BACK = "a job is available again when the connection of its worker ends"
LAST_ATTEMPT = "a job without an attempt left is not offered again"
SCHEDULER = "an iteration of the scheduler loses, repeats and releases no job"


def fail_without_commit(queue: Any) -> None:
    queue.fail = lambda claim, error: queue.execute(f"fail_{claim.handle[0]}", error.encode(), claim.handle[1])


def choose_and_wait(queue: Any) -> None:
    claim = queue.statements["claim"].replace("FOR UPDATE SKIP LOCKED", "")
    between = "WHERE pg_sleep(0.002)::text = '' AND job_id = ("
    queue.statements = {**queue.statements, "claim": claim.replace("WHERE job_id = (", between)}


def insert_one_by_one(queue: Any) -> None:
    insert = queue.insert
    queue.insert = lambda name, rows: [insert(name, [row])[0] for row in rows]


def forget_to_unlock(queue: Any) -> None:
    queue.complete = lambda claim: queue.execute("destroy_job", *claim.handle)


def unlock_first(queue: Any) -> None:
    def complete(claim: Any) -> None:
        queue.execute("unlock_job", claim.handle[-1])
        queue.execute("destroy_job", *claim.handle)

    queue.complete = complete


def never_give_up(queue: Any) -> None:
    queue.options = queue.options.model_copy(update={"tries": 0})


DEFECTS: dict[str, tuple[str, str | Callable[[Any], None], str, str, str, str]] = {
    # the queue, its statement, what is replaced in it, by what, the promise, and what is said
    "no lock": ("status_column", choose_and_wait, "", "", AT_THE_SAME_TIME, "were claimed more than once"),
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
    "the order is that of the index": ("skip_locked", "claim", "ORDER BY job_id", "", LATER, "the order of the claims"),
    "the youngest job is first": (
        "shared_table",
        "claim",
        "ORDER BY job_id",
        "ORDER BY job_id DESC",
        OVERTAKEN,
        "were not claimed while",
    ),
    "a lock is kept": (
        "que",
        forget_to_unlock,
        "",
        "",
        LOCKS,
        "holds 5 advisory locks after the completion of 5 jobs; expected 1",
    ),
    "jobs of other queues count": (
        "shared_table",
        "backlog_default",
        "queue || '' = 'default' AND",
        "",
        COUNTED,
        "found 2; expected 4",
    ),
    "a late failure releases the job": (
        "status_column",
        "fail",
        "attempts = $3",
        "$3::integer > 0",
        LATE,
        "is free again after a late completion or failure",
    ),
    "a claim takes one job too many": ("batch_claim", "claim_in_turn", "LIMIT 1", "LIMIT 2", NO_MORE, "found 0; expected 1"),
    "a job that was not begun has an attempt": (
        "batch_claim",
        "release",
        "- 1",
        "- 0",
        AT_A_STOP,
        "which was not begun: found 2",
    ),
    "a failed job is appended out of turn": (
        "insert_only_log",
        "reappend",
        "pg_advisory_xact_lock(7010, 2)",
        "true",
        SLOW,
        "(while a failure of the held worker is at statement 1, before its commit)",
    ),
    "a job is unlocked before it is deleted": ("que", unlock_first, "", "", SLOW, "was claimed more often than it should be"),
    "a claim is seen when it is committed": ("status_column", "claim", "FOR UPDATE SKIP LOCKED", "", SLOW, "was given to"),
    "an enqueue is several transactions": ("status_column", insert_one_by_one, "", "", ENDED, "of the 2 jobs of an enqueue"),
    "a range is left behind": ("insert_only_log", "install_claim", "p.entry_id = r.last", "p.entry_id <> r.last", GIVEN_BACK, ""),
    "a delayed job counts": (
        "batch_claim",
        "backlog",
        "status = 'claimed' AND claimed_at",
        "claimed_at",
        FAILED,
        "while one is ready: found 0",
    ),
    "attempts have no limit": ("laravel", never_give_up, "", "", LAST_ATTEMPT, "the claim after the only attempt has expired"),
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
    for module in ("promise", "promises"):
        monkeypatch.setattr(f"stallbench.studies.conformance.{module}.PATIENCE_S", 3.0)  # for what never comes
    monkeypatch.setattr("stallbench.studies.conformance.promises._ROUNDS_UNTIL_STARVED", 200)
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
