"""Errors in each operation of a job on a real MariaDB, and how the real worker and the real producer handle them.

Each error is recorded with its code and its operation, no job is lost, and the process continues.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from stallbench.engines import driver_of
from stallbench.engines.innodb.driver import DRIVER
from stallbench.injection.job_faults import JobFault, end_job_fault, start_job_fault
from stallbench.records.endpoint import Endpoint
from stallbench.records.events import Event, EventRecord
from tests.error_details import split_error
from tests.integration.real_processes import RecordingProcess
from tests.integration.worker_bench import Bench, bench, short_waits

pytestmark = pytest.mark.integration

__all__ = ["bench", "short_waits"]  # the fixtures

LOST_CONNECTION = {"2006", "2013", "1927"}
"""The server has gone away, the connection was lost during a query, the connection was killed: which of them, is a matter of moments."""
BY_PRIMARY_KEY = "primary"
"""The hint by which a claim locks the job's row without looking at an index that the rival holds."""


def told(records: list[EventRecord]) -> list[tuple[str, str, int | None]]:
    return [(*split_error(record.detail), record.job_id) for record in records]


class TestADeadlock:
    """1213: the server has rolled the worker's transaction back; the connection is as good as before."""

    def test_in_the_claim_is_an_error_of_no_job_and_the_job_is_claimed_next(self, bench: Bench) -> None:
        (job,) = bench.install(1, index="queue_reserved_at")
        rival = bench.rival()
        rival.hold_index("jobs_queue_reserved_at_index")
        worker = bench.start_worker(index="queue_reserved_at", hint=BY_PRIMARY_KEY)  # whose claim changes the index
        rival.make_deadlock(job)
        worker.wait_for(Event.ERROR)
        rival.let_go()
        worker.wait_for(Event.COMPLETED)
        worker.end()
        assert told(worker.of(Event.ERROR)) == [("1213", "claim", None)]
        assert [record.attempt for record in worker.of(Event.CLAIMED)] == [1], "the reservation was rolled back too"

    def test_in_the_deletion_is_an_error_of_the_job_which_is_re_executed_when_its_reservation_has_expired(
        self, bench: Bench
    ) -> None:
        (job,) = bench.install(1)
        rival = bench.rival()
        rival.hold_index()
        worker = bench.start_worker(hint=BY_PRIMARY_KEY, delete_retries=1, retry_after=1)
        rival.make_deadlock(job)
        worker.wait_for(Event.ERROR)
        rival.let_go()
        worker.wait_for(Event.COMPLETED)
        worker.end()
        assert told(worker.of(Event.ERROR)) == [("1213", "complete", job)]
        assert [(record.job_id, record.attempt) for record in worker.of(Event.WORKED)] == [(job, 1), (job, 2)]
        assert bench.jobs_left() == {}

    def test_in_the_deletion_is_answered_by_a_further_try_and_the_job_is_executed_once(self, bench: Bench) -> None:
        (job,) = bench.install(1)
        rival = bench.rival()
        rival.hold_index()
        worker = bench.start_worker(hint=BY_PRIMARY_KEY, delete_retries=5)
        rival.make_deadlock(job)
        worker.wait_for(Event.RETRIED)
        rival.let_go()
        worker.wait_for(Event.COMPLETED)
        worker.end()
        assert told(worker.of(Event.RETRIED)) == [("1213", "complete", job)]
        assert worker.of(Event.ERROR) == []
        assert len(worker.of(Event.WORKED)) == 1
        assert bench.jobs_left() == {}

    def test_in_the_enqueue_is_an_error_without_a_job_and_is_not_tried_again(self, bench: Bench) -> None:
        bench.install(1)
        rival = bench.rival()
        rival.hold_index()
        producer = bench.start_producer()
        rival.wait_for_a_waiter()
        rival.run("SELECT id FROM jobs FORCE INDEX (PRIMARY) FOR UPDATE")
        producer.wait_for(Event.ERROR)
        rival.let_go()
        assert_goes_on(producer, Event.ENQUEUED)
        assert told(producer.of(Event.ERROR)) == [("1213", "enqueue", None)]
        assert_all_there(bench, producer)


@pytest.mark.usefixtures("short_waits")
class TestALockThatIsNotHadInTime:
    """1205: the server has rolled back the statement only; what the transaction holds is the worker's to let go."""

    def test_in_the_claim(self, bench: Bench) -> None:
        (job,) = bench.install(1)
        rival = bench.rival()
        rival.hold_row(job)
        worker = bench.start_worker()
        worker.wait_for(Event.ERROR)
        rival.let_go()
        worker.wait_for(Event.COMPLETED)
        worker.end()
        assert set(told(worker.of(Event.ERROR))) == {("1205", "claim", None)}

    @pytest.mark.parametrize(("delete_retries", "event"), [(1, Event.ERROR), (5, Event.RETRIED)])
    def test_in_the_deletion(self, delete_retries: int, event: Event, bench: Bench) -> None:
        (job,) = bench.install(1)
        rival = bench.rival()
        rival.hold_index()
        worker = bench.start_worker(hint=BY_PRIMARY_KEY, delete_retries=delete_retries, retry_after=1)
        worker.wait_for(event)
        rival.let_go()
        worker.wait_for(Event.COMPLETED)
        worker.end()
        assert set(told(worker.of(Event.ERROR, Event.RETRIED))) == {("1205", "complete", job)}
        assert bench.jobs_left() == {}

    def test_in_the_enqueue(self, bench: Bench) -> None:
        bench.install(1)
        rival = bench.rival()
        rival.run("LOCK TABLES jobs READ")
        producer = bench.start_producer()
        producer.wait_for(Event.ERROR)
        rival.run("UNLOCK TABLES")
        assert_goes_on(producer, Event.ENQUEUED)
        assert set(told(producer.of(Event.ERROR))) == {("1205", "enqueue", None)}
        assert_all_there(bench, producer)


class TestAConnectionThatIsKilled:
    """2006, 2013: the process opens a new one. The server rolls back what was open on the old one."""

    def test_in_the_claim(self, bench: Bench) -> None:
        (job,) = bench.install(1)
        rival = bench.rival()
        rival.hold_row(job)
        worker = bench.start_worker()
        rival.kill(rival.wait_for_a_waiter())
        worker.wait_for(Event.ERROR)
        rival.let_go()
        worker.wait_for(Event.COMPLETED)
        worker.end()
        (error,) = worker.of(Event.ERROR)
        code, operation = split_error(error.detail)
        assert (code in LOST_CONNECTION, operation, error.job_id) == (True, "claim", None)

    def test_between_claim_and_completion(self, bench: Bench) -> None:
        (job,) = bench.install(1)
        # The first execution alone lasts, for longer than a machine stands still between the claim and the end of the connection.
        start_job_fault(bench.job_faults, "slow", JobFault(on="workers", takes_s=5))
        worker = bench.start_worker(retry_after=1)
        worker.wait_for(Event.CLAIMED)
        bench.kill_connection_of("worker-1")
        end_job_fault(bench.job_faults, "slow")
        worker.wait_for(Event.COMPLETED)
        worker.end()
        self.assert_re_executed(worker, job)

    def test_in_the_completion(self, bench: Bench) -> None:
        (job,) = bench.install(1)
        rival = bench.rival()
        rival.hold_index()
        worker = bench.start_worker(hint=BY_PRIMARY_KEY, delete_retries=5, retry_after=1)
        rival.kill(rival.wait_for_a_waiter())
        worker.wait_for(Event.ERROR)
        rival.let_go()
        worker.wait_for(Event.COMPLETED)
        worker.end()
        self.assert_re_executed(worker, job)

    @staticmethod
    def assert_re_executed(worker: RecordingProcess, job: int) -> None:
        """The completion is an error of the job, which comes again when its reservation has expired."""
        (error,) = worker.of(Event.ERROR)
        code, operation = split_error(error.detail)
        assert (code in LOST_CONNECTION, operation, error.job_id) == (True, "complete", job)
        assert [record.attempt for record in worker.of(Event.CLAIMED)] == [1, 2]
        assert len(worker.of(Event.COMPLETED)) == 1

    def test_in_the_enqueue(self, bench: Bench) -> None:
        bench.install(1)
        rival = bench.rival()
        rival.hold_index()
        producer = bench.start_producer()
        rival.kill(rival.wait_for_a_waiter())
        producer.wait_for(Event.ERROR)
        rival.let_go()
        assert_goes_on(producer, Event.ENQUEUED)
        (error,) = producer.of(Event.ERROR)
        code, operation = split_error(error.detail)
        assert (code in LOST_CONNECTION, operation, error.job_id) == (True, "enqueue", None)
        assert_all_there(bench, producer)

    def test_and_a_query_that_is_killed_leaves_the_connection(self, bench: Bench) -> None:
        (job,) = bench.install(1)
        rival = bench.rival()
        rival.hold_row(job)
        worker = bench.start_worker()
        number = rival.wait_for_a_waiter()
        rival.kill_query(number)
        worker.wait_for(Event.ERROR)
        assert rival.wait_for_a_waiter() == number
        rival.let_go()
        worker.wait_for(Event.COMPLETED)
        worker.end()
        assert told(worker.of(Event.ERROR)) == [("1317", "claim", None)]


class TestAUserWithoutPrivileges:
    """A process of the bench needs its tables, and nothing else of the server."""

    @pytest.fixture
    def poor(self, bench: Bench) -> Iterator[Endpoint]:
        """The database as a user sees it who has rights on it alone."""
        endpoint = bench.endpoint.model_copy(update={"user": "poor"})
        with driver_of("mariadb").connect(bench.endpoint, "fixture") as connection, connection.cursor() as cursor:
            cursor.execute("CREATE USER 'poor'@'127.0.0.1' IDENTIFIED BY %s", (endpoint.password.get_secret_value(),))
            cursor.execute(f"GRANT SELECT, INSERT, UPDATE, DELETE ON {endpoint.database}.* TO 'poor'@'127.0.0.1'")
            yield endpoint
            cursor.execute("DROP USER 'poor'@'127.0.0.1'")

    def test_is_enough_to_produce_and_to_work(self, bench: Bench, poor: Endpoint) -> None:
        bench.install(0)
        producer, worker = bench.start_producer(poor), bench.start_worker(poor)
        worker.wait_for(Event.COMPLETED, 3)
        for process in (producer, worker):
            process.end()
            assert process.of(Event.ERROR) == []

    def test_is_refused_what_needs_the_process_privilege_by_an_error_of_the_driver(self, poor: Endpoint) -> None:
        with (
            DRIVER.connect_for_sampling(poor, "collector:x") as connection,
            connection.cursor() as cursor,
            pytest.raises(DRIVER.errors) as refused,
        ):
            cursor.execute("SHOW ENGINE INNODB STATUS")
        assert DRIVER.code(refused.value) == "1227"

    def test_that_may_not_delete_reports_it_at_every_completion(self, bench: Bench, poor: Endpoint) -> None:
        (job,) = bench.install(1)
        with driver_of("mariadb").connect(bench.endpoint, "test") as connection, connection.cursor() as cursor:
            cursor.execute(f"REVOKE DELETE ON {poor.database}.* FROM 'poor'@'127.0.0.1'")
        worker = bench.start_worker(poor, retry_after=1)
        worker.wait_for(Event.ERROR, 2)
        worker.end()
        assert set(told(worker.of(Event.ERROR))) == {("1142", "complete", job)}
        assert list(bench.jobs_left()) == [job]


def assert_goes_on(process: RecordingProcess, event: Event, by: int = 3) -> None:
    """Wait until there are some more of an event, and end the process."""
    process.wait_for(event, len(process.of(event)) + by)
    process.end()


def assert_all_there(bench: Bench, producer: RecordingProcess) -> None:
    """Every job that was enqueued on record is in the queue."""
    assert {record.job_id for record in producer.of(Event.ENQUEUED)} <= set(bench.jobs_left())
