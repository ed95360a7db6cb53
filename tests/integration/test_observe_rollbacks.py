"""Transactions that are rolled back, for example by a statement_timeout: `stallbench observe` counts them, without its own."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from threading import Event, Thread

import psycopg
import pytest

from stallbench.engines.postgres.driver import connect
from stallbench.observe.address import PRIMARY
from stallbench.observe.diagnostic import Finding, NotVisible, Severity
from stallbench.observe.observer import Observation, Observer
from stallbench.observe.postgres.rollbacks import MANY_PER_S
from stallbench.observe.postgres.session import ReadOnlySession
from stallbench.records.endpoint import Endpoint
from tests.integration.conftest import TestDatabase
from tests.integration.observed import finding_about, observer_of
from tests.integration.observed_states import record_state
from tests.waiting import wait_for

pytestmark = pytest.mark.integration
COMPARED = 2
"""So often are the server's counts compared with those of two seconds before."""


@contextmanager
def workers_that_time_out(endpoint: Endpoint) -> Iterator[None]:
    """Three of four claims run into the statement_timeout: some hundred each second, or a few dozen on a busy machine."""
    ended = Event()

    def work() -> None:
        with connect(endpoint, "worker") as worker:
            worker.execute("SET statement_timeout = '5ms'")
            while not ended.is_set():
                with suppress(psycopg.errors.QueryCanceled):  # on a machine that stands still just then
                    worker.execute("SELECT 1")
                for _ in range(3):
                    with pytest.raises(psycopg.errors.QueryCanceled):
                        worker.execute("SELECT pg_sleep(1)")

    workers = [Thread(target=work) for _ in range(2)]
    for worker in workers:
        worker.start()
    try:
        yield
    finally:
        ended.set()
        for worker in workers:
            worker.join()


def look_until_found(observer: Observer) -> Observation:
    not_visible: list[NotVisible] = []

    def find() -> Observation | None:
        observation = observer.read(reads_everything=True)
        not_visible[:] = observation.not_visible
        return observation if any(one.subject == "rollbacks" for one in observation.findings) else None

    return wait_for(find, lambda: f"a finding about rollbacks, with {not_visible} not visible,", every_s=1)


def rolled_back_by(observer: Observer) -> int:
    """Return how many transactions the observation has rolled back."""
    session = observer.sessions.get(PRIMARY)
    return session.rolled_back if isinstance(session, ReadOnlySession) else 0


def test_statements_that_time_out_are_counted_without_an_extension(database: TestDatabase) -> None:
    with workers_that_time_out(database.direct), observer_of(database.direct) as observer:
        observation = look_until_found(observer)
    finding = finding_about(observation, "are rolled back")
    assert finding.severity is Severity.NOTE, "a pool that ends each read by ROLLBACK looks the same"
    assert finding.statement == ""
    assert "the server's log has an ERROR for each that failed" in finding.sentence
    record_state(
        "three of four statements of the workers run into the statement_timeout",
        "the timeout; the server's log names the statements",
        observation,
    )


def test_the_rollbacks_of_observe_itself_are_not_counted(database: TestDatabase) -> None:
    """Every read is rolled back, so on a server without any other load nothing else ends."""
    with observer_of(database.direct) as observer:
        findings: list[Finding] = []
        for _ in range(COMPARED + 1):
            began_s, own = time.monotonic(), rolled_back_by(observer)
            while time.monotonic() - began_s < 2 or rolled_back_by(observer) - own < 3 * MANY_PER_S:
                findings += observer.read(reads_everything=True).findings
                time.sleep(0.5)
    assert [one for one in findings if one.subject == "rollbacks"] == []
