"""One worker's operation is held after each of its statements while another worker goes on, or its connection ends there.

Between two threads, a race is lost once in many operations. Here it is lost each time that it can be: the other worker acts at every moment at which the
operation can be interrupted, which are the answers of the server to its statements, and, for a statement that is its own transaction, the moment
before its commit. Whatever happens then, every job has to be completed once, and no job may be given to two workers at the same time.
"""

from __future__ import annotations

import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

from stallbench.engines import loaded_errors
from stallbench.queues import Claim, ClaimExpiredError, LostRaceError, NewJob, Queue
from stallbench.queues.queue import OptionRole, Promise
from stallbench.queues.sql_session import SqlSession, open_session
from stallbench.studies.conformance import promise
from stallbench.studies.conformance.promise import BrokenPromiseError, OpenQueue, describe_contents, require, shorten
from stallbench.waiting import wait_until

_OTHERS_S = 0.25
"""How long the other worker has until the held one goes on: it may wait for a lock of the held one."""
_MOST_CLAIMS = 30
"""Of the other worker meanwhile."""
_BATCH = 3
_EXPIRY_S = 2
"""Of claims that survive the connection of their worker, if it ends."""


class _ConnectionEndedError(BaseException):
    """Ends an operation whose connection ended; not an `Exception`, because a process that is gone handles no error."""


def _list_endings() -> tuple[type[BaseException], ...]:
    """Return what an operation raises whose connection ended."""
    return (_ConnectionEndedError, *loaded_errors())


@dataclass(slots=True)
class _Job:
    """What is known of a job."""

    history: list[str] = field(default_factory=list)
    holder: str = ""
    """The worker that has claimed it, and has neither completed nor failed it."""
    claimed_s: float = 0.0
    """When it was claimed last, by the monotonic clock."""
    claims: int = 0
    failures: int = 0
    expiries: int = 0
    """Claims that ended with their worker, or may have expired before it completed the job, because the machine stood still."""
    is_completed: bool = False
    is_being_completed: bool = False
    is_uncertain: bool = False
    """Whether its completion ended in an error: it may be completed, or be given to another worker."""


class _Ledger:
    """Every job of a trial, and what happened to it. Several threads write into it."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._jobs: dict[int, _Job] = defaultdict(_Job)
        self._payloads: dict[str, int] = {}
        """The job of each payload that was claimed."""
        self._unknown: list[Sequence[str]] = []
        """The payloads of each enqueue that was not acknowledged: all of them are jobs, or none."""
        self._acknowledged: set[int] = set()
        self._made = 0
        self.at_most_lost = 0
        """How many jobs may be lost with the workers whose connections ended."""
        self.expiry_s: float | None = None
        """After which claims expire; none if that takes longer than a trial."""
        self.counts_attempts = True
        """Whether each attempt of a job is known here."""
        self.situation = ""
        """What is going on, for the histories."""

    def make_jobs(self, count: int) -> Sequence[NewJob]:
        """Return new jobs, each with a payload of its own."""
        with self._lock:
            self._made += count
            return [NewJob(payload=f'{{"n":{self._made - count + number}}}') for number in range(count)]

    def note(self, job_id: int, what: str) -> _Job:
        """Add to the history of a job, and return it."""
        with self._lock:
            job = self._jobs[job_id]
            job.history.append(f"{what}{f' ({self.situation})' if self.situation else ''}")
            return job

    def enqueued(self, ids: Sequence[int], worker: str) -> None:
        """Jobs were enqueued and acknowledged."""
        with self._lock:
            for job_id in ids:
                if job_id in self._acknowledged:
                    raise BrokenPromiseError(f"two jobs got the id {job_id}")
                self.note(job_id, f"enqueued by {worker}")
                self._acknowledged.add(job_id)

    def not_acknowledged(self, jobs: Sequence[NewJob]) -> None:
        """The enqueue of these jobs ended with its connection."""
        with self._lock:
            self._unknown.append([job.payload for job in jobs])

    def ended(self, worker: str) -> None:
        """A worker has ended with the jobs that it had, which are given to others."""
        with self._lock:
            for job in self._jobs.values():
                if job.holder == worker:
                    job.holder = ""
                    job.expiries += 1

    def claimed(self, claim: Claim, worker: str) -> None:
        """A worker was given a job; raises `BrokenPromiseError` if it must not have been."""
        with self._lock:
            attempt = "" if claim.attempt is None else f", attempt {claim.attempt}"
            job = self.note(claim.job_id, f"claimed by {worker}{attempt}")
            self._payloads[claim.payload] = claim.job_id
            job.claims += 1
            if job.holder and self.may_have_expired(job):
                job.holder = ""
                job.expiries += 1
            if job.holder:
                raise BrokenPromiseError(
                    f"job {claim.job_id} was given to {worker} while {job.holder} had it: {self.tell(claim.job_id)}"
                )
            if not job.is_being_completed:  # which may end in an error, after which the job may be given to others
                self._require_few_claims(claim.job_id)
            if self.counts_attempts and claim.attempt not in (None, 1 + job.failures):
                raise BrokenPromiseError(
                    f"the attempt of job {claim.job_id}: found {claim.attempt}; expected {1 + job.failures}: {self.tell(claim.job_id)}"
                )
            job.holder, job.claimed_s = worker, time.monotonic()

    def _require_few_claims(self, job_id: int) -> None:
        job = self._jobs[job_id]
        if job.claims > 1 + job.failures + job.expiries + job.is_uncertain:
            raise BrokenPromiseError(f"job {job_id} was claimed more often than it should be: {self.tell(job_id)}")

    @contextmanager
    def completing(self, job_id: int) -> Iterator[None]:
        """A job is completed in this block; if it raises, nobody knows whether it is."""
        job = self._jobs[job_id]
        job.is_being_completed = True
        try:
            yield
        except BaseException:
            job.is_uncertain = True
            raise
        finally:
            job.is_being_completed = False
        with self._lock:
            job.is_completed = True
            self.note(job_id, "completed")
            self._require_few_claims(job_id)

    def may_have_expired(self, job: _Job) -> bool:
        """Whether the claim of a job may have expired; times may be whole seconds."""
        return self.expiry_s is not None and time.monotonic() - job.claimed_s > self.expiry_s - 1

    def let_go(self, claim: Claim, worker: str, what: str) -> _Job:
        """A worker is about to complete or to fail its job, which another may be given from then on."""
        with self._lock:
            job = self.note(claim.job_id, f"{worker} begins to {what} it")
            job.holder = ""
            if what == "fail":
                job.failures += 1
            return job

    def tell(self, job_id: int) -> str:
        """Return the history of a job."""
        return "; ".join(self._jobs[job_id].history)

    def has_failed(self, job_id: int) -> bool:
        """Whether a job has failed before."""
        return self._jobs[job_id].failures > 0

    @property
    def missing(self) -> list[int]:
        """The acknowledged jobs that are not completed."""
        with self._lock:
            jobs = ((job_id, self._jobs[job_id]) for job_id in sorted(self._acknowledged))
            return [job_id for job_id, job in jobs if not job.is_completed and not job.is_uncertain]

    @property
    def has_uncertain(self) -> bool:
        """Whether a completion ended in an error."""
        return any(job.is_uncertain for job in self._jobs.values())

    def check_unknown(self) -> None:
        """Raise `BrokenPromiseError` for jobs that nobody enqueued, and for a part of the jobs of one enqueue."""
        unacknowledged = {payload for payloads in self._unknown for payload in payloads}
        allowed = {self._payloads[payload] for payload in unacknowledged if payload in self._payloads}
        strange = sorted(set(self._payloads.values()) - self._acknowledged - allowed)
        require(not strange, f"jobs were claimed that nobody enqueued: {shorten(strange)}")
        for payloads in self._unknown:
            stored = [payload in self._payloads for payload in payloads]
            require(
                len(set(stored)) == 1,
                f"of the {len(stored)} jobs of an enqueue whose connection ended, only {sum(stored)} are there",
            )


class _Worker:
    """A worker, or a producer, whose every operation is written into the ledger."""

    def __init__(self, name: str, queue: Queue[Any], ledger: _Ledger) -> None:
        self.name = name
        self.queue = queue
        self._ledger = ledger
        self._in_hand: list[Claim] = []
        """Claimed, and not begun."""

    def enqueue(self, count: int) -> None:
        jobs = self._ledger.make_jobs(count)
        try:
            ids = self.queue.enqueue(jobs)
        except _list_endings():
            self._ledger.not_acknowledged(jobs)
            raise
        self._ledger.enqueued(ids, self.name)

    def claim(self) -> list[Claim]:
        """Return what it gets, after an error from which the queue recovers nothing; after a lost race it tries again."""
        until_s = time.monotonic() + promise.PATIENCE_S
        while time.monotonic() < until_s:
            try:
                claims = list(self.queue.claim())
            except LostRaceError:
                continue
            except loaded_errors() as error:
                self._recover(error)
                claims = []
            for claim in claims:
                self._ledger.claimed(claim, self.name)
            return claims
        raise BrokenPromiseError(f"{self.name} lost the race for each job for {promise.PATIENCE_S:.0f} s")

    def complete(self, claim: Claim) -> None:
        job = self._ledger.let_go(claim, self.name, "complete")
        try:
            with self._ledger.completing(claim.job_id):
                self.queue.complete(claim)
        except ClaimExpiredError as error:
            if self._ledger.may_have_expired(job):
                return
            raise BrokenPromiseError(
                f"the completion of job {claim.job_id} says that its claim has expired: {self._ledger.tell(claim.job_id)}"
            ) from error
        except loaded_errors() as error:
            self._recover(error)

    def fail(self, claim: Claim) -> None:
        job = self._ledger.let_go(claim, self.name, "fail")
        try:
            self.queue.fail(claim, "no luck")
        except ClaimExpiredError as error:
            if self._ledger.may_have_expired(job):
                return
            raise BrokenPromiseError(
                f"the failure of job {claim.job_id} says that its claim has expired: {self._ledger.tell(claim.job_id)}"
            ) from error

    def take(self) -> bool:
        """Claim; the next `work` completes it. Returns whether there was anything."""
        claims = self.claim()
        self._in_hand += claims
        return bool(claims)

    def work(self) -> None:
        """Complete what there is, until a claim finds nothing."""
        for _ in range(_MOST_CLAIMS):
            while self._in_hand:
                self.complete(self._in_hand.pop())
            if not self.take():
                break

    def claim_fresh(self) -> Claim:
        """Return a claim of a job that has not failed yet; complete the others."""
        while True:
            for claim in self.claim() or [self._claim_new()]:
                if not self._ledger.has_failed(claim.job_id):
                    return claim
                self.complete(claim)

    def _claim_new(self) -> Claim:
        self.enqueue(1)
        claims = wait_until(self.claim, within_s=promise.PATIENCE_S, every_s=0.02)
        require(bool(claims), f"a new job could not be claimed; {describe_contents(self.queue)}")
        assert claims
        return claims[0]

    def _recover(self, error: Exception) -> None:
        if not self.queue.recover(error):
            raise error


class _Steps:
    """The answers of the server to the statements of one operation."""

    def __init__(self, queue: Queue[Any]) -> None:
        self._queue = queue
        try:
            self._session: SqlSession | None = open_session(queue.connection)
        except KeyError:
            self._session = None  # no SQL
        self._passed = 0
        self._act: Callable[[int], None] = self._note
        self.are_open: list[bool] = []
        """Whether a transaction was open before the operation, and after each answer."""
        queue.observe_answers(self._pass)

    def _pass(self) -> None:
        self._passed += 1
        self._act(self._passed)

    def _note(self, number: int) -> None:
        self.are_open.append(self._is_open())

    def _is_open(self) -> bool:
        return self._session is not None and self._session.is_in_transaction

    def watch(self) -> None:
        """Note the answers of the next operation."""
        self._passed, self._act, self.are_open = 0, self._note, [self._is_open()]

    def act_at(self, act: Callable[[int], None]) -> None:
        """Call ``act`` at each answer of the next operation."""
        self._passed, self._act = 0, act

    def let_pass(self) -> None:
        """Do nothing from now on."""
        self._act = lambda _: None

    def send(self, statement: str) -> None:
        """Send a statement past the queue."""
        cursor = self._queue.connection.cursor()
        try:
            cursor.execute(statement)
        finally:
            cursor.close()

    @property
    def has_transactions(self) -> bool:
        """Whether transactions can be begun past the queue: SQLite would refuse all other connections meanwhile."""
        return self._session is not None and not self._session.blocks_other_writers


@dataclass(frozen=True, slots=True)
class _Moment:
    """Where an operation is interrupted."""

    answer: int
    """After which of the server's answers, from 1 on."""
    is_before_commit: bool
    """Whether the statement's own transaction is not committed yet."""

    def __str__(self) -> str:
        return f"statement {self.answer}{', before its commit' if self.is_before_commit else ''}"


def _list_moments(steps: _Steps) -> Iterator[_Moment]:
    """Yield the moments of an operation that `_Steps.watch` has noted. After its last commit nothing is left to be held."""
    last = len(steps.are_open) - 1
    for answer in range(1, last + 1):
        is_alone = not steps.are_open[answer - 1] and not steps.are_open[answer]
        if is_alone and steps.has_transactions:
            yield _Moment(answer, is_before_commit=True)
        if answer < last or steps.are_open[answer]:
            yield _Moment(answer, is_before_commit=False)


def _list_operations(queue: Queue[Any]) -> Mapping[str, Callable[[_Worker], Callable[[], object]]]:
    """Return each operation: what prepares it, and returns what is interrupted."""

    def with_claim(act: Callable[[_Worker, Claim], None]) -> Callable[[_Worker], Callable[[], object]]:
        def prepare(worker: _Worker) -> Callable[[], object]:
            claim = worker.claim_fresh()
            return lambda: act(worker, claim)

        return prepare

    def claim(worker: _Worker) -> Callable[[], object]:
        worker.enqueue(2)
        return worker.take

    def schedule(worker: _Worker) -> Callable[[], object]:
        worker.enqueue(2)
        return worker.queue.schedule

    found: dict[str, Callable[[_Worker], Callable[[], object]]] = {
        "an enqueue": lambda worker: lambda: worker.enqueue(2),
        "a claim": claim,
        "a completion": with_claim(_Worker.complete),
        "a failure": with_claim(_Worker.fail),
    }
    if queue.has_scheduler(queue.options):
        found["an iteration of the scheduler"] = schedule
    return found


def hold_operations(open_one: OpenQueue) -> None:
    """Hold each operation at each of its moments while another worker enqueues, claims and completes; raises `BrokenPromiseError`."""
    ledger = _Ledger()
    held, other = (_Worker(name, open_one(), ledger) for name in ("the held worker", "the other worker"))
    steps = _Steps(held.queue)
    with ThreadPoolExecutor(2) as pool:
        for name, prepare in _list_operations(held.queue).items():
            moments: list[_Moment] = []
            for _ in range(2):  # the first time may have statements that are sent from time to time
                operation = prepare(held)
                steps.watch()
                operation()
                moments = list(_list_moments(steps))
                steps.let_pass()
                held.work()
            for moment in moments:
                operation = prepare(held)
                ledger.situation = f"while {name} of the held worker is at {moment}"
                _hold(pool, steps, moment, operation, lambda: _go_on(other))
                ledger.situation = ""
                held.work()
    _finish(ledger, [held, other], open_one)


def _go_on(worker: _Worker) -> None:
    worker.enqueue(1)
    worker.work()


def _hold(
    pool: ThreadPoolExecutor, steps: _Steps, moment: _Moment, operation: Callable[[], object], others: Callable[[], None]
) -> None:
    """Carry out an operation in a thread, and ``others`` in another one while it is held; raises what either raises."""
    reached, resumed = threading.Event(), threading.Event()

    def act(number: int) -> None:
        if number == moment.answer:
            reached.set()
            resumed.wait(promise.PATIENCE_S)
            if moment.is_before_commit:
                steps.send("COMMIT")
        elif moment.is_before_commit and number == moment.answer - 1:
            steps.send("BEGIN")

    steps.act_at(act)
    if moment.is_before_commit and moment.answer == 1:
        steps.send("BEGIN")
    acting: list[Future[Any]] = [pool.submit(operation)]
    try:
        wait_until(lambda: reached.is_set() or acting[0].done(), within_s=promise.PATIENCE_S, every_s=0.002)
        acting.append(pool.submit(others))
        wait(acting[1:], _OTHERS_S)
    finally:
        resumed.set()
    _, unfinished = wait(acting, promise.PATIENCE_S)
    require(not unfinished, f"two workers did not end within {promise.PATIENCE_S:.0f} s, while one was held at {moment}")
    if moment.is_before_commit and not reached.is_set():
        steps.send("COMMIT")
    steps.let_pass()
    for each in acting:
        each.result()


def end_connections(open_one: OpenQueue) -> None:
    """End a worker at each answer of the server to each of its operations, while another one goes on; raises `BrokenPromiseError`.

    At the last answer, only its connection ends in another trial, and the worker goes on with another one: it does not know what is stored.
    """
    ledger = _Ledger()
    ledger.counts_attempts = False  # those of the workers that ended are not known
    kind = type(open_one())
    options: dict[str, object] = {}
    if (expiry := kind.options_type.find_option(OptionRole.EXPIRY)) is not None and kind.claims_survive_connection:
        options[expiry] = ledger.expiry_s = _EXPIRY_S
    if (batch := kind.options_type.find_option(OptionRole.BATCH)) is not None:
        options[batch] = _BATCH

    def open_worker(name: str) -> _Worker:
        return _Worker(name, open_one(**options), ledger)

    other = open_worker("the other worker")
    is_rescued = kind.promise is Promise.AT_LEAST_ONCE and kind.rescues_jobs_by(other.queue.options)
    for name, prepare in _list_operations(other.queue).items():
        watched = open_worker("a worker")
        operation = _prepare(watched, prepare)
        steps = _Steps(watched.queue)
        steps.watch()
        operation()
        steps.let_pass()
        watched.work()
        last = len(steps.are_open) - 1
        for answer in range(1, last + 1):
            for is_lost in (False, True)[: 1 + (answer == last)]:
                ending = open_worker("the worker whose connection is lost" if is_lost else "the worker that ends")
                where = f"{name} at statement {answer} of {last}"
                operation = _prepare(ending, prepare)
                ledger.situation = f"after {'the connection' if is_lost else 'the process'} of a worker ended in {where}"
                is_over = _end_at(
                    answer, operation, ending, make_error=open_one.make_lost_error if is_lost else _ConnectionEndedError
                )
                ledger.ended(ending.name)
                ledger.at_most_lost += not is_rescued
                if is_lost and not is_over:
                    open_worker(f"{ending.name}, on another connection").work()
                _go_on(other)
    ledger.situation = ""
    _finish(ledger, [other], open_one, options)


def _prepare(worker: _Worker, prepare: Callable[[_Worker], Callable[[], object]]) -> Callable[[], object]:
    """Let a worker complete a job, which must stay completed whatever becomes of the worker, and return the operation that is interrupted."""
    worker.complete(worker.claim_fresh())
    return prepare(worker)


def _end_at(answer: int, operation: Callable[[], object], ending: _Worker, *, make_error: Callable[[], BaseException]) -> bool:
    """Close the connection of a worker at an answer of the server, and raise an error there; return whether the operation ended without one."""
    steps = _Steps(ending.queue)

    def act(number: int) -> None:
        if number == answer:
            with suppress(Exception):  # in any state
                ending.queue.connection.close()
            raise make_error()

    steps.act_at(act)
    try:
        operation()
    except _list_endings():
        return False
    finally:
        steps.let_pass()
    with suppress(Exception):  # it did not come to this answer
        ending.queue.connection.close()
    return True


def _finish(
    ledger: _Ledger, workers: Sequence[_Worker], open_one: OpenQueue, options: Mapping[str, object] | None = None
) -> None:
    """Complete what is left, also what was delayed or has to expire; raises `BrokenPromiseError` if a job is missing, or was not enqueued."""
    watcher = open_one(**options or {})
    is_ended = options is not None  # then what is uncertain comes back, too

    def is_over() -> bool:
        for worker in workers:
            worker.work()
        if is_ended and watcher.depth() > 0:
            _require_claim(_Worker("a new worker", open_one(**options or {}), ledger), watcher)
        missing = len(ledger.missing) - ledger.at_most_lost
        return missing <= 0 and (watcher.is_drained() or ledger.at_most_lost > 0 or (ledger.has_uncertain and not is_ended))

    is_finished = wait_until(is_over, within_s=promise.PATIENCE_S, every_s=0.05)
    missing = ledger.missing
    if not is_finished and missing:
        raise BrokenPromiseError(
            f"{len(missing)} jobs were never completed: {shorten(missing)}; job {missing[0]}: {ledger.tell(missing[0])}; "
            f"{describe_contents(watcher)}"
        )
    require(bool(is_finished), f"the queue holds a job after the completion of all; {describe_contents(watcher)}")
    ledger.check_unknown()


def _require_claim(worker: _Worker, watcher: Queue[Any]) -> None:
    """Require that a worker that has just started is given a job, because there is one, and complete it."""
    claims = worker.claim()
    require(bool(claims) or watcher.depth() == 0, f"a claim finds no job that waits; {describe_contents(watcher)}")
    for claim in claims:
        worker.complete(claim)
