"""A promise of a queue's operations: its name, which queues give it, and how it is tried on an empty database."""

from __future__ import annotations

import secrets
import tempfile
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from stallbench.engines import ENGINES, driver_of, loaded_errors
from stallbench.processes.process import ROLE_READY_S, ROLE_STOP_S
from stallbench.processes.reaper import name_temporary
from stallbench.processes.role_command import role_command
from stallbench.processes.supervisor import Supervisor
from stallbench.queues import Claim, ClaimExpiredError, LostRaceError, NewJob, Queue, RefusedError, find_queue
from stallbench.queues.queue import OptionRole
from stallbench.queues.queue_client import close_queue, open_queue
from stallbench.records.endpoint import Endpoint
from stallbench.records.events import Event, EventRecord
from stallbench.records.reading import read_events
from stallbench.waiting import wait_until

PATIENCE_S = 60.0
"""Time limit for operations that should be immediate; a busy machine can stall for seconds."""
_MOST_LISTED = 10
_PRODUCERS, _WORKERS, _ROUNDS = 2, 6, 10
"""In `work_at_the_same_time`: so many that a race is lost in it if it can be, and so few that it takes a second at most. Rounds: of a producer, before the
workers begin, so that all want the same job, and again beside them."""
_PAUSE_S = 0.002
"""After a claim that found nothing."""
_BETWEEN_ROUNDS_S = 0.01
"""So long that the workers have claimed what is there, and want what is just being enqueued."""
_WORKER = "worker-2"
_ENOUGH_EMPTY = 5
"""So many claims of a worker that found nothing show that it is given no further job."""


class OpenQueue:
    """Opens the queue on a new connection at each call, with the options that it is given, and starts a worker process for it."""

    def __init__(self, kind: str, options: Mapping[str, object], endpoint: Endpoint) -> None:
        """Open nothing yet. The database at ``endpoint`` is empty."""
        self._kind = kind
        self._options = options
        self._endpoint = endpoint
        self._opened: list[Queue[Any]] = []

    def require_options(self, promise: QueuePromise) -> None:
        """Use the options that a promise needs, too, from now on."""
        self._options = {**self._options, **promise.options(find_queue(self._kind))}

    def __call__(self, **options: object) -> Queue[Any]:
        """Open the queue; raises what its driver raises."""
        queue = open_queue(self._kind, {**self._options, **options}, self._endpoint, f"conformance-{len(self._opened)}")
        self._opened.append(queue)
        if queue.claims_after_schedule:
            take_turns(queue)
        return queue

    def work_in_a_process(self, job_id: int) -> list[EventRecord]:
        """Start a worker process, as in a run, and stop it when it has completed a job or found none several times; return what it has recorded.

        Raises `NotCarriedOutError` if it does not start, and `BrokenPromiseError` if it exits.
        """
        processes = Supervisor(secrets.token_hex(8))
        with tempfile.TemporaryDirectory(prefix=name_temporary("conform")) as folder:
            log = Path(folder) / f"{_WORKER}.csv"
            document = {
                "name": _WORKER,
                "endpoint": self._endpoint.with_password(),
                "queue": self._kind,
                "queue_options": dict(self._options),
                "events": str(log),
            }
            worker = processes.start(
                _WORKER, "worker", role_command("workers"), document=document, log=Path(folder) / f"{_WORKER}.log", ready=True
            )
            try:
                worker.wait_ready(ROLE_READY_S)

                def is_over() -> bool:
                    events = [(event.event, event.job_id) for event in read_events(log)]
                    is_done = (Event.COMPLETED, job_id) in events or sum(
                        event is Event.EMPTY for event, _ in events
                    ) >= _ENOUGH_EMPTY
                    return is_done or worker.poll() is not None

                wait_until(is_over, within_s=PATIENCE_S, every_s=0.02)
                if worker.poll() is not None:
                    raise BrokenPromiseError(f"a worker process {worker.describe_end()}{worker.tail_log()}")
            finally:
                processes.stop([worker], ROLE_STOP_S)
            return list(read_events(log))

    def make_lost_error(self) -> Exception:
        """Return the error of the driver for a connection that is lost, so that nobody knows whether the last statement was carried out."""
        engine = self._endpoint.engine
        return driver_of(engine).make_error(ENGINES[engine].lost_code, "the connection was lost before the answer")

    def close(self) -> None:
        """Close every connection, in any state."""
        for queue in self._opened:
            close_queue(queue, self._endpoint.engine)


class BrokenPromiseError(Exception):
    """A queue did not do what it promises; the message says what happened, and what was expected."""


def _without_options(queue: type[Queue[Any]]) -> Mapping[str, object]:
    """Return none."""
    return {}


@dataclass(frozen=True, slots=True, kw_only=True)
class QueuePromise:
    """One promise."""

    name: str
    """What holds, as a sentence without a full stop."""
    why_not: Callable[[type[Queue[Any]]], str | None]
    """Returns why a queue does not give the promise; none if it does."""
    needs_claim: bool
    """Whether it is tried with `Queue.claim`, which a library does in a worker of its own."""
    check: Callable[[OpenQueue], None]
    """Raises `BrokenPromiseError`."""
    options: Callable[[type[Queue[Any]]], Mapping[str, object]] = _without_options
    """Returns options with which the queue is installed and tried, beside those that are asked for."""

    def find_obstacle(self, queue: type[Queue[Any]]) -> str | None:
        """Return why the promise cannot be tried on a queue; none if it can."""
        if self.needs_claim and queue.worker_command() is not None:
            return "the library claims in its own worker, so the bench cannot try a single claim"
        return self.why_not(queue)


def _given_by_all(queue: type[Queue[Any]]) -> None:
    """Return that every queue gives it."""


class PromiseList(list[QueuePromise]):
    """The promises, in order."""

    def add(
        self,
        name: str,
        *,
        why_not: Callable[[type[Queue[Any]]], str | None] = _given_by_all,
        needs_claim: bool = True,
        options: Callable[[type[Queue[Any]]], Mapping[str, object]] = _without_options,
    ) -> Callable[[Callable[[OpenQueue], None]], Callable[[OpenQueue], None]]:
        """Return a decorator that adds a promise."""

        def keep(check: Callable[[OpenQueue], None]) -> Callable[[OpenQueue], None]:
            self.append(QueuePromise(name=name, why_not=why_not, needs_claim=needs_claim, check=check, options=options))
            return check

        return keep


def require(holds: bool, otherwise: str) -> None:
    """Raise `BrokenPromiseError` unless something ``holds``."""
    if not holds:
        raise BrokenPromiseError(otherwise)


def require_equal(found: object, expected: object, what: str) -> None:
    """Raise `BrokenPromiseError` unless what was found is what was expected. ``what``: the subject of the sentence."""
    require(found == expected, f"{what}: found {found!r}; expected {expected!r}")


def claim_one(queue: Queue[Any]) -> Claim:
    """Claim, and return the only job of the claim."""
    claims = queue.claim()
    what = "the number of jobs of a claim while one is ready"
    require(len(claims) == 1, f"{what}: found {len(claims)}; expected 1{'' if claims else f'; {describe_contents(queue)}'}")
    return claims[0]


def claim_new(queue: Queue[Any], job: NewJob) -> Claim:
    """Enqueue a job and claim it. Nothing else may wait: a queue that claims in batches would take it, too."""
    (job_id,) = queue.enqueue([job])
    claim = claim_one(queue)
    require_equal(claim.job_id, job_id, "the job of a claim while only the newest one is ready")
    return claim


def describe_contents(queue: Queue[Any]) -> str:
    """Return what the queue says of its jobs, to follow the reason for which a claim found none."""
    try:
        jobs, depth = list(islice(queue.job_ids(), _MOST_LISTED + 1)), queue.depth()
    except Exception as error:  # noqa: BLE001 - what it cannot say must not hide why it was asked
        return f"what it holds is not known: {type(error).__name__}: {str(error).strip()}"
    listed = [f"{job_id} {'claimed' if is_claimed else 'queued'}" for job_id, is_claimed in jobs[:_MOST_LISTED]]
    more = ", ..." if len(jobs) > _MOST_LISTED else ""
    return f"its depth is {depth}, and its snapshot has {', '.join(listed) + more if jobs else 'no job'}"


def claim_patiently(queue: Queue[Any]) -> Claim:
    """Claim as soon as there is something: a server needs a moment to notice that a session is gone."""
    claims = wait_until(queue.claim, within_s=PATIENCE_S, every_s=0.02)
    if not claims:
        raise BrokenPromiseError(f"the job could not be claimed within {PATIENCE_S:.0f} s; {describe_contents(queue)}")
    return claims[0]


def expiring_after_1_s(open_one: OpenQueue) -> Queue[Any]:
    """Open the queue with claims of one second."""
    option = type(open_one()).options_type.find_option(OptionRole.EXPIRY)
    assert option is not None, "only queues whose claims expire give the promise"
    return open_one(**{option: 1})


def enqueue_unless_refused(queue: Queue[Any], jobs: Sequence[NewJob]) -> list[int] | None:
    """Return the ids; none if the queue refuses the jobs, or its server does with an error after which the queue can go on."""
    try:
        return list(queue.enqueue(jobs))
    except RefusedError:
        return None
    except loaded_errors() as error:
        if not queue.recover(error):
            raise
        return None


def work_at_the_same_time(open_one: OpenQueue, jobs: Sequence[NewJob]) -> tuple[list[int], list[int]]:
    """Let producers enqueue ``jobs`` again and again, and workers claim and complete them, each in a thread; return the ids of both.

    Ends when every job was claimed, or when none was for `PATIENCE_S`. After an error of the driver a worker goes on if the queue can recover;
    what else is raised ends the others, and is raised here.
    """
    producers = [open_one() for _ in range(_PRODUCERS)]
    workers = [open_one() for _ in range(_WORKERS)]
    enqueued: list[int] = []
    claimed: list[int] = []
    expected = _PRODUCERS * 2 * _ROUNDS * len(jobs)
    ended = threading.Event()

    def produce(queue: Queue[Any]) -> None:
        for _ in range(_ROUNDS):
            enqueued.extend(queue.enqueue(jobs))
            time.sleep(_BETWEEN_ROUNDS_S)

    def work(queue: Queue[Any]) -> None:
        latest_s = time.monotonic()
        while not ended.is_set() and len(claimed) < expected and time.monotonic() < latest_s + PATIENCE_S:
            try:
                claims = queue.claim()
                for claim in claims:
                    claimed.append(claim.job_id)
                    latest_s = time.monotonic()
                    queue.complete(claim)
                if not claims:
                    time.sleep(_PAUSE_S)
            except (LostRaceError, ClaimExpiredError):
                continue
            except loaded_errors() as error:
                if not queue.recover(error):
                    raise

    def until_the_end(act: Callable[[Queue[Any]], None], queue: Queue[Any]) -> None:
        try:
            act(queue)
        except BaseException:
            ended.set()
            raise

    for _ in range(_PRODUCERS * _ROUNDS):
        enqueued.extend(producers[0].enqueue(jobs))
    with ThreadPoolExecutor(_PRODUCERS + _WORKERS) as pool:
        acting = [pool.submit(until_the_end, produce, queue) for queue in producers]
        acting += [pool.submit(until_the_end, work, queue) for queue in workers]
    for each in acting:
        each.result()
    return enqueued, claimed


def shorten(ids: Sequence[int]) -> str:
    """Return the first of many ids as text."""
    return ", ".join(map(str, ids[:_MOST_LISTED])) + (", ..." if len(ids) > _MOST_LISTED else "")


def take_turns(queue: Queue[Any]) -> None:
    """Call the queue's scheduler after each enqueue; in a run it is a process of its own."""

    def and_schedule(add: Callable[[Sequence[NewJob]], Sequence[int]]) -> Callable[[Sequence[NewJob]], Sequence[int]]:
        def add_and_schedule(jobs: Sequence[NewJob]) -> Sequence[int]:
            ids = add(jobs)
            while queue.schedule() == 0:
                pass
            return ids

        return add_and_schedule

    queue.enqueue = and_schedule(queue.enqueue)  # type: ignore[method-assign, assignment]
    queue.load = and_schedule(queue.load)  # type: ignore[method-assign, assignment]
