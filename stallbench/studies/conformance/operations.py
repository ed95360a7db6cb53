"""Tries the promises of a queue's operations, one after the other, each on an empty database."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from pathlib import Path

from stallbench.engines import ENGINES
from stallbench.engines.database import Database
from stallbench.errors import StallbenchError
from stallbench.queues import find_queue
from stallbench.scenario.model import Scenario
from stallbench.servers.empty_databases import empty_databases
from stallbench.studies.conformance.promise import BrokenPromiseError, OpenQueue, QueuePromise
from stallbench.studies.conformance.promise_outcome import PromiseOutcome
from stallbench.studies.conformance.promises import PROMISES


def try_operations(scenario: Scenario, logs: Path, *, tried: Collection[str]) -> Iterator[PromiseOutcome]:
    """Yield the outcome of each promise that was not ``tried`` before; no server is started if there is none.

    ``scenario``: has the queue, its options and its servers. ``logs``: folder of the output of the servers. Raises `NotCarriedOutError` when a server
    does not start or ends.
    """
    promises = [promise for promise in PROMISES if promise.name not in tried]
    if not promises:
        return
    queue = find_queue(scenario.queue.kind)
    with empty_databases(_with_time_limits(scenario.database), queue.second_engine, logs) as databases:
        for promise in promises:
            obstacle = promise.find_obstacle(queue)
            if obstacle is not None:
                yield PromiseOutcome(name=promise.name, result="info", reason=obstacle)
                continue
            outcome = try_promise(promise, OpenQueue(scenario.queue.kind, scenario.queue.options, databases.give()))
            if outcome.result == "fail":
                databases.check()
            yield outcome


def try_promise(promise: QueuePromise, open_one: OpenQueue) -> PromiseOutcome:
    """Install the queue that ``open_one`` opens, on its empty database, and return whether it keeps the promise; closes what was opened.

    What a server that has ended does to the queue is told like a fault of the queue. Raises the bench's own errors.
    """
    try:
        open_one.require_options(promise)
        open_one().install()
        promise.check(open_one)
    except BrokenPromiseError as error:
        return PromiseOutcome(name=promise.name, result="fail", reason=str(error))
    except StallbenchError:
        raise
    except (Exception, SystemExit) as error:  # noqa: BLE001 - a user's queue may raise anything, and that is what is to be known of it
        return PromiseOutcome(name=promise.name, result="fail", reason=f"{type(error).__name__}: {str(error).strip()}")
    finally:
        open_one.close()
    return PromiseOutcome(name=promise.name, result="pass")


def _with_time_limits(database: Database) -> Database:
    """Return the section with a limit for each wait that it does not limit itself."""
    return database.model_copy(update={"settings": {**ENGINES[database.engine].time_limits, **database.settings}})
