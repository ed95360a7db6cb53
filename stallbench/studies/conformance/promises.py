"""The promises of a queue's operations. Where queues promise different things, their own attributes say which of them."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Collection, Mapping
from typing import Any

from stallbench.engines import ENGINES, driver_of, loaded_errors
from stallbench.queues import Backlog, Claim, ClaimExpiredError, NewJob, Queue
from stallbench.queues.queue import OptionRole
from stallbench.queues.sql_session import open_session
from stallbench.records.events import Event
from stallbench.studies.conformance.interleavings import end_connections, hold_operations
from stallbench.studies.conformance.promise import (
    PATIENCE_S,
    BrokenPromiseError,
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
_ROUNDS_UNTIL_STARVED = 2000
"""A queue that chooses one of a hundred jobs by chance needs a quarter of it."""
_ITERATIONS_A_ROUND = 4
"""Of a scheduler that makes waiting jobs better: the best of a thousand priorities is reached in a tenth of the rounds."""
_BEFORE_FAILURE_S = 0.4
"""From a claim of one second to its failure: the claim would expire before the delay of the failed job ends."""
_EXPIRY_S = 2
_SURELY_EXPIRED_S = 2.1
"""After a claim of one second, also where times are whole seconds."""
_LATER_S = 1.1
"""So much that what a queue does once in a second is done."""
_FIVES_OF_MUCH_WORK = 26
"""More jobs than the smallest partition of a log has."""
_PUT_OFF_S = 1.0
"""The shortest delay of a failed job in a queue that delays failed jobs, from its claim on: a transaction that began then may give the time."""


def _is_unordered(queue: type[Queue[Any]]) -> str | None:
    return None if queue.ordered else "it promises no order"


def _keeps_claims(queue: type[Queue[Any]]) -> str | None:
    return "its claims survive the connection of the worker" if queue.claims_survive_connection else None


def _has_no_advisory_locks(queue: type[Queue[Any]]) -> str | None:
    return (
        None
        if all(ENGINES[engine].has_advisory_locks for engine in queue.engines)
        else "its engines have none, or not all of them"
    )


def _is_ordered(queue: type[Queue[Any]]) -> str | None:
    return "its jobs are claimed in their order" if queue.ordered else None


def _takes_one(queue: type[Queue[Any]]) -> str | None:
    return None if queue.options_type.find_option(OptionRole.BATCH) else "a claim takes one job"


def _has_no_attempt_limit(queue: type[Queue[Any]]) -> str | None:
    return None if queue.options_type.find_option(OptionRole.ATTEMPT_LIMIT) else "it offers a failed job again and again"


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


@PROMISES.add("jobs are claimed in their order also later, and after a vacuum", why_not=_is_unordered)
def keeps_order_later(open_one: OpenQueue) -> None:
    """New jobs lie before older ones in the table, and the planner knows how small it is: the order must be in the statement."""
    queue = open_one()
    ids = list(queue.enqueue(_JOBS * 2))
    claimed = []
    for number in range(7):
        if number == 6:
            _vacuum(open_one())
            time.sleep(_LATER_S)
        claim = claim_one(queue)
        claimed.append(claim.job_id)
        queue.complete(claim)
    ids += open_one().enqueue(_JOBS)
    _vacuum(open_one())
    while len(claimed) < len(ids):
        claim = claim_one(queue)
        claimed.append(claim.job_id)
        queue.complete(claim)
    require_equal(claimed, ids, "the order of the claims")


def _vacuum(queue: Queue[Any]) -> None:
    """Free the space of deleted rows and count the others, as autovacuum does; other engines have nothing like it."""
    try:
        family = open_session(queue.connection).engine_family
    except KeyError:
        return
    driver_of(family).vacuum_and_analyze(queue.connection, queue.tables)


@PROMISES.add("a worker keeps no advisory lock of a completed job", why_not=_has_no_advisory_locks)
def keeps_no_locks(open_one: OpenQueue) -> None:
    """Five jobs."""
    queue = open_one()
    queue.enqueue(_JOBS)
    for _ in _JOBS:
        queue.complete(claim_one(queue))
    cursor = queue.connection.cursor()
    (held,) = cursor.execute("SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND pid = pg_backend_pid()").fetchone()
    most = queue.count_advisory_locks(queue.options)
    require(
        held <= most,
        f"the session of a worker holds {held} advisory locks after the completion of {len(_JOBS)} jobs; expected {most} at most",
    )


@PROMISES.add("no job is overtaken for ever", why_not=_is_ordered)
def lets_none_starve(open_one: OpenQueue) -> None:
    """A hundred jobs, and as many new ones as are completed."""
    queue = open_one()
    schedules = queue.has_scheduler(queue.options) and not queue.claims_after_schedule
    waiting = set(queue.enqueue(_JOBS * 20))
    for _ in range(_ROUNDS_UNTIL_STARVED):
        queue.enqueue(_JOBS[:1])
        for _ in range(_ITERATIONS_A_ROUND if schedules else 0):
            queue.schedule()
        claim = claim_one(queue)
        waiting.discard(claim.job_id)
        queue.complete(claim)
        if not waiting:
            return
    raise BrokenPromiseError(
        f"{len(waiting)} of 100 jobs were not claimed while {_ROUNDS_UNTIL_STARVED} were that were enqueued later: {shorten(sorted(waiting))}"
    )


@PROMISES.add("what counts as waiting can be claimed")
def claims_what_it_counts(open_one: OpenQueue) -> None:
    """Jobs of two queues, if it distinguishes queues: the workers serve one of them, or both."""
    queue = open_one()
    queue.enqueue(_JOBS[:2])
    if "queue" in queue.used_job_fields:
        queue.enqueue([NewJob(payload="{}", queue="another")] * 2)
    waiting = queue.depth()
    claimed = 0
    while claims := queue.claim():
        claimed += len(claims)
        for claim in claims:
            queue.complete(claim)
    require_equal(claimed, waiting, "the number of jobs that can be claimed")
    require_equal(queue.backlog(), Backlog(depth=0, oldest_job_s=None), "what waits after a claim that found nothing")


def _with_one_attempt(queue: type[Queue[Any]]) -> Mapping[str, object]:
    option = queue.options_type.find_option(OptionRole.ATTEMPT_LIMIT)
    return {} if option is None else {option: 1}


@PROMISES.add("a job without an attempt left is not offered again", why_not=_has_no_attempt_limit, options=_with_one_attempt)
def limits_attempts(open_one: OpenQueue) -> None:
    """Limits of one attempt and of two; each attempt fails, or expires, if claims do."""
    option = type(open_one()).options_type.find_option(OptionRole.ATTEMPT_LIMIT)
    assert option is not None, "only queues with a limit give the promise"
    expiry = type(open_one()).options_type.find_option(OptionRole.EXPIRY)
    if expiry is not None:
        claim_new(open_one(**{expiry: 1}), _JOBS[0])
        time.sleep(_SURELY_EXPIRED_S)
        worker = open_one(**{expiry: 1})
        require_equal(list(worker.claim()), [], "the claim after the only attempt has expired")
        require_equal(worker.depth(), 0, "the depth after that")
    for limit in (1, 2):
        queue = open_one(**{option: limit})
        queue.enqueue(_JOBS[:1])
        for attempt in range(1, limit + 1):
            claim = claim_patiently(queue)
            require(claim.attempt in (None, attempt), f"the attempt: found {claim.attempt}; expected {attempt}")
            queue.fail(claim, "no luck")
        if queue.puts_off_failed:
            time.sleep(_PUT_OFF_S * (limit + 1))
        require_equal(list(queue.claim()), [], f"the claim after the last of {limit} attempts")
        require_equal(queue.depth(), 0, f"the depth after the last of {limit} attempts")


@PROMISES.add("a worker whose claim has expired takes nothing from the next one", why_not=_never_expires)
def fences_late_workers(open_one: OpenQueue) -> None:
    """Claims of two seconds; one late worker completes its job, and one fails its job, while a successor has both."""
    kind = type(open_one())
    option = kind.options_type.find_option(OptionRole.EXPIRY)
    assert option is not None, "only queues whose claims expire give the promise"
    late, (successor, third) = ([open_one(**{option: _EXPIRY_S}) for _ in range(2)] for _ in range(2))
    first = [claim_new(worker, job) for worker, job in zip(late, _JOBS, strict=False)]
    are_waiting = wait_until(lambda: third.depth() == len(first), within_s=PATIENCE_S, every_s=0.05)
    require(bool(are_waiting), f"the claims of {_EXPIRY_S} s have not expired after {PATIENCE_S:.0f} s")
    claimed_s = time.monotonic()
    held = [claim_one(successor) for _ in first]
    require_equal(
        sorted(claim.job_id for claim in held), sorted(claim.job_id for claim in first), "the jobs that the successor claims"
    )
    _let_late(late[0], lambda: late[0].complete(first[0]))
    _let_late(late[1], lambda: late[1].fail(first[1], "too late"))
    free = [job_id for job_id, is_claimed in third.job_ids() if not is_claimed]
    given = [claim.job_id for claim in third.claim()]
    if time.monotonic() > claimed_s + _EXPIRY_S - 1:
        return  # the machine stood still: the claims of the successor may have expired as well
    require(not free, f"job {shorten(free)} is free again after a late completion or failure, while its successor has it")
    require(
        not given,
        f"job {shorten(given)} is given to a third worker after a late completion or failure, while its successor has it",
    )
    for claim in held:
        _let_late(successor, lambda: successor.complete(claim))  # noqa: B023 - called at once
    require(third.is_drained(), "the queue holds a job after the completion of both")


def _let_late(queue: Queue[Any], act: Callable[[], None]) -> None:
    """Let a worker do what its queue may refuse."""
    try:
        act()
    except ClaimExpiredError:
        return
    except loaded_errors() as error:
        if not queue.recover(error):
            raise


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


@PROMISES.add("a claim takes no more jobs than it is to")
def leaves_the_others(open_one: OpenQueue) -> None:
    """One job more than a worker takes at once, which another worker gets."""
    first, second, third = open_one(), open_one(), open_one()
    batch = first.options.value_of(OptionRole.BATCH) or 1
    if first.claims_in_batches and first.options_type.find_option(OptionRole.BATCH) is None:
        return  # nobody knows how many it takes
    ids = list(open_one().enqueue([NewJob(payload=f'{{"n":{n}}}') for n in range(batch + 1)]))
    taken = [claim_one(first)]
    left = claim_one(second)
    while len(taken) < batch:
        taken.append(claim_one(first))
    require_equal(sorted(claim.job_id for claim in [*taken, left]), sorted(ids), "the jobs that two workers claim")
    require_equal(list(third.claim()), [], "the claim of a third worker")
    for claim in taken:
        first.complete(claim)
    second.complete(left)
    require(third.is_drained(), "the queue holds a job after the completion of all")


@PROMISES.add("a worker that stops gives back what it has not begun", why_not=_takes_one)
def gives_back_at_a_stop(open_one: OpenQueue) -> None:
    """Three jobs taken at once, of which one is completed."""
    option = type(open_one()).options_type.find_option(OptionRole.BATCH)
    assert option is not None, "only queues that take several jobs give the promise"
    stopping, other = open_one(**{option: 3}), open_one(**{option: 3})
    jobs = dict(zip(other.enqueue(_JOBS[:3]), _JOBS, strict=False))
    claim = claim_one(stopping)
    stopping.complete(claim)
    del jobs[claim.job_id]
    stopping.deregister()
    stopping.connection.close()
    while jobs:
        claim = claim_patiently(other)
        require(claim.job_id in jobs, f"job {claim.job_id} is claimed; expected one of {sorted(jobs)}")
        require_equal(claim.payload, jobs.pop(claim.job_id).payload, f"the payload of job {claim.job_id}")
        require(
            claim.attempt in (None, 1),
            f"the attempt of job {claim.job_id}, which was not begun: found {claim.attempt}; expected 1",
        )
        other.complete(claim)
    require(other.is_drained(), "the queue holds a job after the completion of all")


@PROMISES.add("an operation that takes long loses, repeats and gives away no job")
def holds_while_slow(open_one: OpenQueue) -> None:
    """Each operation of one worker is held at each of its statements while another one works."""
    hold_operations(open_one)


@PROMISES.add("the end of a connection within an operation loses and repeats no job")
def survives_a_broken_operation(open_one: OpenQueue) -> None:
    """The connection of a worker ends at each statement of each of its operations, while another one works."""
    end_connections(open_one)


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
    """Two workers end with the job, beside one that was completed, and one that a third worker keeps."""
    dying, other, third = open_one(), open_one(), open_one()
    dying.complete(claim_new(dying, _JOBS[0]))
    kept = claim_new(third, _JOBS[1])
    claim = claim_new(dying, _JOBS[2])
    for worker in (other, open_one()):
        job_id = claim.job_id
        dying.connection.close()
        claim, dying = claim_patiently(worker), worker
        require_equal(claim.job_id, job_id, "the job that the other worker claims")
        require_equal(claim.payload, _JOBS[2].payload, "its payload")
    dying.complete(claim)
    other = open_one()
    require_equal(dict(other.job_ids()), {kept.job_id: True}, "whether each job is claimed after the completion of that one")
    third.complete(kept)
    require(other.is_drained(), "the queue holds a job after the completion of all")


@PROMISES.add("a job whose claim has expired counts as waiting and is given to another worker", why_not=_never_expires)
def lets_claims_expire(open_one: OpenQueue) -> None:
    """Two claims of one second, and a job that was completed before."""
    dying, second, other = (expiring_after_1_s(open_one) for _ in range(3))
    dying.complete(claim_new(dying, _JOBS[0]))
    first = claim_new(dying, _JOBS[1])
    claims = [first]
    for worker in (second, other):
        if other.claims_survive_connection:
            dying.connection.close()
        has_expired = wait_until(lambda: other.depth() > 0, within_s=PATIENCE_S, every_s=0.05)
        require(bool(has_expired), f"the claim of one second has not expired after {PATIENCE_S:.0f} s")
        require_equal(dict(other.job_ids()), {first.job_id: False}, "whether the job is claimed")
        claims.append(claim_one(worker))
        require_equal(claims[-1].job_id, first.job_id, "the job that the other worker claims")
        require_equal(claims[-1].payload, first.payload, "the payload of a further claim")
        dying = worker
    if first.attempt is not None:
        require_equal([claim.attempt for claim in claims], [1, 2, 3], "the attempts of the claims")
    other.complete(claims[-1])
    require(other.is_drained(), "the queue holds a job after the completion of both")


@PROMISES.add("a failed job is kept and delayed", why_not=_offers_at_once)
def delays_failed(open_one: OpenQueue) -> None:
    """A job that fails once, beside two that wait. If claims expire, it does shortly before its claim would."""
    expires = _never_expires(type(open_one())) is None

    def open_worker() -> Queue[Any]:
        return expiring_after_1_s(open_one) if expires else open_one()

    queue, watcher = open_worker(), open_worker()
    failed, claimed_s, jobs = _fail_beside_others(queue, open_one(), _BEFORE_FAILURE_S if expires else 0)
    _require_failed_is_kept(open_one(), failed, jobs)
    while failed.job_id in jobs:
        if len(jobs) == 1:
            require(
                bool(wait_until(lambda: watcher.depth() > 0, within_s=PATIENCE_S, every_s=0.02)),
                f"the failed job could not be claimed within {PATIENCE_S:.0f} s; {describe_contents(watcher)}",
            )
            queue = open_worker()
        claim = claim_one(queue)
        if claim.job_id == failed.job_id:
            require(time.monotonic() >= claimed_s + _PUT_OFF_S, f"it is offered again within {_PUT_OFF_S:g} s of its claim")
        _complete_after_failure(queue, claim, failed, jobs)
    require(queue.is_drained() or bool(jobs), "the queue holds a job after the completion of all")


def _fail_beside_others(queue: Queue[Any], producer: Queue[Any], after_s: float) -> tuple[Claim, float, dict[int, NewJob]]:
    """Claim a job, enqueue two more, and fail it ``after_s`` later; return the claim, when it began, and all jobs.

    If the machine stands still, the claim expires before the failure; then it is tried again.
    """
    while True:
        claimed_s = time.monotonic()
        failed = claim_new(queue, _JOBS[0])
        jobs = {failed.job_id: _JOBS[0], **dict(zip(producer.enqueue(_JOBS[1:3]), _JOBS[1:3], strict=True))}
        time.sleep(after_s)
        try:
            queue.fail(failed, "no luck")
        except ClaimExpiredError:
            require(
                after_s > 0 and time.monotonic() > claimed_s + 1,
                f"the failure of job {failed.job_id} says that its claim has expired",
            )
            for _ in jobs:
                queue.complete(claim_patiently(queue))
        else:
            return failed, claimed_s, jobs


@PROMISES.add("a failed job is kept and offered again", why_not=_delays_failed)
def offers_failed_again(open_one: OpenQueue) -> None:
    """A job that fails once, beside two that wait."""
    queue, watcher = open_one(), open_one()
    failed = claim_new(queue, _JOBS[0])
    jobs = {failed.job_id: _JOBS[0], **dict(zip(watcher.enqueue(_JOBS[1:3]), _JOBS[1:3], strict=True))}
    queue.fail(failed, "no luck")
    require_equal(watcher.depth(), len(jobs), "the depth")
    _require_failed_is_kept(watcher, failed, jobs)
    while jobs:
        _complete_after_failure(queue, claim_one(queue), failed, jobs)
    require(watcher.is_drained(), "the queue holds a job after the completion of all")


def _require_failed_is_kept(watcher: Queue[Any], failed: Claim, jobs: Collection[int]) -> None:
    """Require that the snapshot has ``jobs``, of which ``failed`` is one, and none of them as claimed unless the queue cannot tell."""
    expected = {job_id: watcher.shows_failed_as_claimed and job_id == failed.job_id for job_id in jobs}
    require_equal(dict(watcher.job_ids()), expected, "whether each job is claimed after the failure of one")


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
    """A completed, a claimed and three waiting jobs; then none; then one, and again after more than a hundred others."""
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
    keepers, worker = [queue, open_one()], open_one()
    claims = [claim_one(queue)]
    require_equal(claims[0].job_id, job_id, "the job that is claimed after an iteration on an empty queue")
    worker.enqueue(_JOBS * _FIVES_OF_MUCH_WORK)
    for _ in range(_FIVES_OF_MUCH_WORK * len(_JOBS)):
        worker.complete(claim_one(worker))
    claims.append(claim_new(keepers[1], _JOBS[0]))
    (waiting,) = worker.enqueue(_JOBS[1:2])
    for _ in range(2):
        scheduler.schedule()
    expected = {**{claim.job_id: True for claim in claims}, waiting: False}
    require_equal(dict(scheduler.job_ids()), expected, "whether each job is claimed after two iterations after much work")
    for keeper, claim in zip(keepers, claims, strict=True):
        keeper.complete(claim)
    worker.complete(claim_one(worker))
    require(scheduler.is_drained(), "the queue holds a job after the completion of all")


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
