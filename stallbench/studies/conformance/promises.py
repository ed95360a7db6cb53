"""The promises of a queue's operations. Where queues promise different things, their own attributes say which of them."""

from __future__ import annotations

import time
from collections import Counter
from typing import Any

from stallbench.queues import Backlog, Claim, NewJob, Queue
from stallbench.queues.queue import OptionRole
from stallbench.records.events import Event
from stallbench.studies.conformance.promise import (
    PATIENCE_S,
    OpenQueue,
    PromiseList,
    claim_new,
    claim_one,
    claim_patiently,
    describe_contents,
    enqueue_unless_refused,
    expiring_after_1_s,
    require,
    require_equal,
    shorten,
    work_at_the_same_time,
)
from stallbench.waiting import wait_until

PROMISES = PromiseList()
_JOBS = [NewJob(payload=f'{{"n":{n}}}') for n in range(5)]
_PUT_OFF_S = 1.0
"""The shortest delay of a failed job in a queue that delays failed jobs, from its claim on: a transaction that began then may give the time."""


def _is_unordered(queue: type[Queue[Any]]) -> str | None:
    return None if queue.ordered else "it promises no order"


def _keeps_claims(queue: type[Queue[Any]]) -> str | None:
    return "its claims survive the connection of the worker" if queue.claims_survive_connection else None


def _never_expires(queue: type[Queue[Any]]) -> str | None:
    return None if queue.options_type.find_option(OptionRole.EXPIRY) else "its claims do not expire"


def _offers_at_once(queue: type[Queue[Any]]) -> str | None:
    return None if queue.puts_off_failed else "it offers a failed job again at once"


def _delays_failed(queue: type[Queue[Any]]) -> str | None:
    return "it delays a failed job" if queue.puts_off_failed else None


def _has_no_keys(queue: type[Queue[Any]]) -> str | None:
    return None if "key" in queue.used_job_fields else "its jobs have no keys"


def _has_no_scheduler(queue: type[Queue[Any]]) -> str | None:
    if queue.claims_after_schedule:
        return "no job can be claimed before an iteration of its scheduler"
    return None if queue.needs_scheduler else "it has no scheduler"


@PROMISES.add("a queue describes itself", needs_claim=False)
def describes_itself(open_one: OpenQueue) -> None:
    """Its summary, source, tables, and each of its options."""
    queue = type(open_one())
    for name in ("summary", "source", "tables"):
        require(bool(getattr(queue, name)), f"{name} is empty")
    for name, field in queue.options_type.model_fields.items():
        require(bool(field.description), f"the option {name} has no description")


@PROMISES.add("each job gets its own id, and ids ascend in the order of enqueueing", needs_claim=False)
def numbers_jobs(open_one: OpenQueue) -> None:
    """The ids that `enqueue` returns."""
    ids = list(open_one().enqueue(_JOBS))
    require_equal(len(set(ids)), len(_JOBS), f"the different ids in {ids}")
    require_equal(ids, sorted(ids), "the ids")


@PROMISES.add("jobs that are loaded as a backlog are the same as enqueued ones")
def loads_as_it_enqueues(open_one: OpenQueue) -> None:
    """`load` and `enqueue` on two connections."""
    queue = open_one()
    ids = [*queue.load(_JOBS[:3]), *queue.enqueue(_JOBS[3:4]), *open_one().load(_JOBS[4:])]
    require_equal(len(set(ids)), len(_JOBS), f"the different ids in {ids}")
    require_equal(queue.depth(), len(_JOBS), "the depth")
    require_equal({job_id for job_id, _ in queue.job_ids()}, set(ids), "the jobs in the queue")
    worked = {}
    for _ in ids:
        claim = claim_one(queue)
        worked[claim.job_id] = claim.payload
        queue.complete(claim)
    require_equal(worked, {job_id: job.payload for job_id, job in zip(ids, _JOBS, strict=True)}, "the payloads by job")
    require(queue.is_drained(), "the queue holds a job after the completion of all")


@PROMISES.add("a claim on an empty queue returns no job")
def is_empty_at_first(open_one: OpenQueue) -> None:
    """A claim, the depth and the oldest job of a new queue."""
    queue = open_one()
    require_equal(list(queue.claim()), [], "the claim")
    require_equal(queue.depth(), 0, "the depth")
    require_equal(queue.backlog().oldest_job_s, None, "the age of the oldest job")


@PROMISES.add("jobs are claimed in the order of their enqueueing", why_not=_is_unordered)
def keeps_order(open_one: OpenQueue) -> None:
    """One worker, one job after the other."""
    queue = open_one()
    ids = list(queue.enqueue(_JOBS))
    claimed = []
    for _ in ids:
        claim = claim_one(queue)
        claimed.append(claim.job_id)
        queue.complete(claim)
    require_equal(claimed, ids, "the order of the claims")
    require_equal(list(queue.claim()), [], "a further claim")


@PROMISES.add("a claim carries the payload")
def carries_the_payload(open_one: OpenQueue) -> None:
    """The payload comes out as it went in, with the number of the attempt, if attempts are counted."""
    queue = open_one()
    queue.enqueue(_JOBS[3:4])
    claim = claim_one(queue)
    require_equal(claim.payload, _JOBS[3].payload, "the payload")
    require(claim.attempt in (None, 1), f"the attempt of the first claim: found {claim.attempt}; expected 1")


@PROMISES.add("a claimed job is given to no other worker")
def claims_exclusively(open_one: OpenQueue) -> None:
    """Two jobs and three workers."""
    first, second, third = open_one(), open_one(), open_one()
    claim_new(first, _JOBS[0])
    claim_new(second, _JOBS[1])
    require_equal(list(third.claim()), [], "the claim of a third worker")
    require_equal(third.backlog(), Backlog(depth=0, oldest_job_s=None), "what waits while both are claimed")


@PROMISES.add("jobs that are enqueued and claimed at the same time are each claimed once")
def claims_each_once(open_one: OpenQueue) -> None:
    """Producers and workers that do not wait for each other."""
    enqueued, claimed = work_at_the_same_time(open_one, _JOBS)
    repeated = [job_id for job_id, times in Counter(claimed).items() if times > 1]
    require(not repeated, f"{len(repeated)} of {len(enqueued)} jobs were claimed more than once: {shorten(repeated)}")
    require(len(set(enqueued)) == len(enqueued), "two producers got the same id")
    missing = sorted(set(enqueued) - set(claimed))
    require(
        not missing,
        f"{len(missing)} of {len(enqueued)} jobs were never claimed: {shorten(missing)}; {describe_contents(open_one())}",
    )
    unknown = sorted(set(claimed) - set(enqueued))
    require(not unknown, f"jobs were claimed that nobody enqueued: {shorten(unknown)}")


@PROMISES.add("a claimed job stays with its worker when another worker process starts, works and stops")
def keeps_claims_at_a_start(open_one: OpenQueue) -> None:
    """Two jobs, of which this process claims one, and a worker process as in a run."""
    queue = open_one()
    claim = claim_new(queue, _JOBS[0])
    (other,) = open_one().enqueue(_JOBS[1:2])
    events = open_one.work_in_a_process(other)
    claimed = {event.job_id for event in events if event.event is Event.CLAIMED}
    require_equal(claimed, {other}, f"the jobs that a worker process claims while this one has job {claim.job_id}")
    queue.complete(claim)
    require(open_one().is_drained(), "the queue holds a job after the completion of both")


@PROMISES.add("a claimed job does not count as waiting")
def counts_without_claimed(open_one: OpenQueue) -> None:
    """The depth after a claim, and after the completion."""
    queue, watcher = open_one(), open_one()
    claim = claim_new(queue, _JOBS[0])
    waiting = len(watcher.enqueue(_JOBS[1:]))
    require_equal(watcher.depth(), waiting, "the depth after the claim")
    queue.complete(claim)
    require_equal(watcher.depth(), waiting, "the depth after the completion")


@PROMISES.add("the snapshot distinguishes claimed jobs from queued ones")
def distinguishes_claimed(open_one: OpenQueue) -> None:
    """`job_ids` with a completed, a claimed and a queued job."""
    queue, watcher = open_one(), open_one()
    queue.complete(claim_new(queue, _JOBS[0]))
    claimed = claim_new(queue, _JOBS[1]).job_id
    queued = watcher.enqueue(_JOBS[2:3])
    require_equal(dict(watcher.job_ids()), {claimed: True, **dict.fromkeys(queued, False)}, "whether each job is claimed")


@PROMISES.add("a snapshot finds every one of many jobs", needs_claim=False)
def finds_all(open_one: OpenQueue) -> None:
    """`job_ids` of a thousand jobs."""
    ids = open_one().enqueue(_JOBS * 200)
    found = [job_id for job_id, _ in open_one().job_ids()]
    require_equal(len(found), len(ids), "the number of jobs")
    require(sorted(found) == sorted(ids), "the snapshot has other jobs than were enqueued")


@PROMISES.add("a queue is drained when its last job is completed, and not before")
def is_drained_at_last(open_one: OpenQueue) -> None:
    """`is_drained` with a queued, a claimed and a completed job."""
    queue, watcher = open_one(), open_one()
    queue.enqueue(_JOBS[:1])
    require(not watcher.is_drained(), "is_drained is true while a job waits")
    claim = claim_one(queue)
    require(not watcher.is_drained(), "is_drained is true while a job is claimed")
    queue.complete(claim)
    require(watcher.is_drained(), "is_drained is false after the completion of the only job")


@PROMISES.add("a job is available again when the connection of its worker ends", why_not=_keeps_claims)
def gives_back(open_one: OpenQueue) -> None:
    """Another worker can claim the job."""
    dying, other = open_one(), open_one()
    (job_id,) = dying.enqueue(_JOBS[:1])
    require_equal(claim_one(dying).job_id, job_id, "the claimed job")
    dying.connection.close()
    require_equal(claim_patiently(other).job_id, job_id, "the job that the other worker claims")


@PROMISES.add("a job whose claim has expired counts as waiting and is given to another worker", why_not=_never_expires)
def lets_claims_expire(open_one: OpenQueue) -> None:
    """Claims of one second, and a job that was completed before."""
    dying, other = expiring_after_1_s(open_one), expiring_after_1_s(open_one)
    dying.complete(claim_new(dying, _JOBS[0]))
    first = claim_new(dying, _JOBS[1])
    job_id = first.job_id
    if other.claims_survive_connection:
        dying.connection.close()
    has_expired = wait_until(lambda: other.depth() > 0, within_s=PATIENCE_S, every_s=0.05)
    require(bool(has_expired), f"the claim of one second has not expired after {PATIENCE_S:.0f} s")
    require_equal(dict(other.job_ids()), {job_id: False}, "whether the job is claimed")
    again = claim_one(other)
    require_equal(again.job_id, job_id, "the job that the other worker claims")
    require_equal((first.attempt, again.attempt), (1, 2), "the attempts of the two claims")
    require_equal(again.payload, first.payload, "the payload of the second claim")
    other.complete(again)
    require(other.is_drained(), "the queue holds a job after the completion of both")


@PROMISES.add("a failed job is kept and delayed", why_not=_offers_at_once)
def delays_failed(open_one: OpenQueue) -> None:
    """A job that fails once, beside two that wait."""
    queue = open_one()
    claimed_s = time.monotonic()
    failed = claim_new(queue, _JOBS[0])
    jobs = {failed.job_id: _JOBS[0], **dict(zip(open_one().enqueue(_JOBS[1:3]), _JOBS[1:3], strict=True))}
    queue.fail(failed, "no luck")
    require_equal(dict(open_one().job_ids()), dict.fromkeys(jobs, False), "whether each job is claimed after the failure of one")
    while failed.job_id in jobs:
        claim = claim_one(queue) if len(jobs) > 1 else claim_patiently(queue)
        if claim.job_id == failed.job_id:
            require(time.monotonic() >= claimed_s + _PUT_OFF_S, f"it is offered again within {_PUT_OFF_S:g} s of its claim")
        _complete_after_failure(queue, claim, failed, jobs)
    require(queue.is_drained() or bool(jobs), "the queue holds a job after the completion of all")


@PROMISES.add("a failed job is kept and offered again", why_not=_delays_failed)
def offers_failed_again(open_one: OpenQueue) -> None:
    """A job that fails once, beside two that wait."""
    queue, watcher = open_one(), open_one()
    failed = claim_new(queue, _JOBS[0])
    jobs = {failed.job_id: _JOBS[0], **dict(zip(watcher.enqueue(_JOBS[1:3]), _JOBS[1:3], strict=True))}
    queue.fail(failed, "no luck")
    require_equal(watcher.depth(), len(jobs), "the depth")
    require_equal(dict(watcher.job_ids()), dict.fromkeys(jobs, False), "whether each job is claimed after the failure of one")
    while jobs:
        _complete_after_failure(queue, claim_one(queue), failed, jobs)
    require(watcher.is_drained(), "the queue holds a job after the completion of all")


def _complete_after_failure(queue: Queue[Any], claim: Claim, failed: Claim, jobs: dict[int, NewJob]) -> None:
    """Require that a claim is as it should be after the failure of ``failed``, complete it, and remove it from ``jobs``."""
    require(claim.job_id in jobs, f"job {claim.job_id} is claimed; expected one of {sorted(jobs)}")
    require_equal(claim.payload, jobs.pop(claim.job_id).payload, f"the payload of job {claim.job_id}")
    if failed.attempt is not None:
        attempt = failed.attempt + 1 if claim.job_id == failed.job_id else 1
        require_equal(claim.attempt, attempt, f"the attempt of job {claim.job_id}, after job {failed.job_id} failed")
    queue.complete(claim)


@PROMISES.add("a job whose key another one has is refused", why_not=_has_no_keys)
def refuses_known_keys(open_one: OpenQueue) -> None:
    """A key that is there, alone and together with a new one, from the same producer and from another."""
    producers = [open_one(), open_one()]
    known, new = NewJob(payload="{}", key="known"), NewJob(payload="{}", key="new")
    ids = list(producers[0].enqueue([known]))
    for producer in producers:
        for jobs in ([known], [new, known]):
            found = enqueue_unless_refused(producer, jobs)
            require(found is None, f"a second job with the same key was accepted as {found}, beside {ids}")
    require_equal([job_id for job_id, _ in producers[0].job_ids()], ids, "the jobs after all others were refused")
    ids += producers[1].enqueue([new])
    require_equal(sorted(job_id for job_id, _ in producers[0].job_ids()), sorted(ids), "the jobs after one with a new key")


@PROMISES.add("an iteration of the scheduler loses, repeats and releases no job", why_not=_has_no_scheduler)
def keeps_jobs_when_scheduling(open_one: OpenQueue) -> None:
    """A completed, a claimed and three waiting jobs; then none; then one."""
    queue, scheduler = open_one(), open_one()
    queue.complete(claim_new(queue, _JOBS[0]))
    claim = claim_new(queue, _JOBS[1])
    scheduler.enqueue(_JOBS[2:])
    before, depth = dict(scheduler.job_ids()), scheduler.depth()
    for _ in range(2):
        scheduler.schedule()
    require_equal(dict(scheduler.job_ids()), before, "whether each job is claimed after two iterations")
    require_equal(scheduler.depth(), depth, "the depth after two iterations")
    queue.complete(claim)
    for _ in range(depth):
        queue.complete(claim_one(queue))
    require(scheduler.is_drained(), "the queue holds a job after the completion of all")
    scheduler.schedule()
    (job_id,) = queue.enqueue(_JOBS[:1])
    scheduler.schedule()
    require_equal(claim_one(queue).job_id, job_id, "the job that is claimed after an iteration on an empty queue")


@PROMISES.add("the age of the oldest job is known", why_not=lambda queue: queue.no_job_age or None, needs_claim=False)
def knows_the_oldest(open_one: OpenQueue) -> None:
    """The backlog of new jobs."""
    queue = open_one()
    began_s = time.monotonic()
    queue.enqueue(_JOBS)
    age_s = queue.backlog().oldest_job_s
    require(
        age_s is not None and 0 <= age_s <= time.monotonic() - began_s + 1,
        f"the age of jobs that were just enqueued is {age_s} s",
    )
