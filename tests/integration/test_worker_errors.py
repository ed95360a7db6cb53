"""What can go wrong in a move of a job on a real MariaDB, and what the real worker and the real producer make of it.

Whatever it is: it is written down with its number and its move, no job is lost, and the process goes on.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import pytest

from stallbench.engines import driver_of
from stallbench.engines.mysql import DRIVER
from stallbench.injection.job_faults import JobFault, end_job_fault, start_job_fault
from stallbench.processes.queue_client import opened_queue
from stallbench.queues import NewJob
from stallbench.records.endpoint import Endpoint
from stallbench.records.events import Event, EventRecord
from tests.integration.conftest import EmptyOn
from tests.integration.engines import PrivateServers
from tests.integration.innodb_rival import Rival
from tests.integration.real_processes import RecordingProcess, start_recording

pytestmark = pytest.mark.integration

LOST_CONNECTION = {"2006", "2013", "1927"}
"""The server has gone away, the connection was lost during a query, the connection was killed: which of them, is a matter of moments."""
BY_PRIMARY_KEY = "primary"
"""The hint by which a claim locks the job's row without looking at an index that the rival holds."""


@dataclass(frozen=True)
class Bench:
    """A queue with jobs in it, processes on it, and a rival."""

    endpoint: Endpoint
    servers: PrivateServers
    folder: Path
    stack: ExitStack

    def install(self, jobs: int = 0, **options: object) -> list[int]:
        """Make the queue and return the ids of the jobs that it begins with."""
        with opened_queue("laravel", options, self.endpoint, "install") as queue:
            queue.install()
            return list(queue.enqueue([NewJob(payload="{}")] * jobs)) if jobs else []

    def jobs_left(self, **options: object) -> dict[int, bool]:
        """Return the jobs that the queue still has, and whether each is claimed."""
        with opened_queue("laravel", options, self.endpoint, "final_snapshot") as queue:
            return dict(queue.job_ids())

    @property
    def job_faults(self) -> Path:
        """Folder of what goes wrong inside the worker."""
        return self.folder / "job_faults"

    def start_worker(self, endpoint: Endpoint | None = None, **options: object) -> RecordingProcess:
        """Start ``worker-1``, whose jobs take no time."""
        return self._start("worker", endpoint, work_s=0, job_faults=str(self.job_faults), queue_options=options)

    def start_producer(self, endpoint: Endpoint | None = None, *, rate: float = 20) -> RecordingProcess:
        """Start ``producer-1``."""
        return self._start("producer", endpoint, rate=rate)

    def rival(self) -> Rival:
        """Open one, for the rest of the test."""
        return self.stack.enter_context(Rival(self.endpoint))

    def kill_connection_of(self, name: str) -> None:
        """End a process's connection, whatever it is doing."""
        with driver_of("mariadb").connect(self.endpoint, "killer") as connection, connection.cursor() as cursor:
            cursor.execute("SELECT id FROM information_schema.processlist WHERE user = %s", (name,))
            ((number,),) = cursor.fetchall()
            cursor.execute(f"KILL {number}")

    def _start(self, role: str, endpoint: Endpoint | None, **document: object) -> RecordingProcess:
        name = f"{role}-1"
        started = start_recording(
            self.servers.processes, role, name, endpoint or self.endpoint, "laravel", self.folder, **document
        )
        self.stack.callback(started.process.kill)
        return started


@pytest.fixture
def bench(empty_on: EmptyOn, servers: PrivateServers, tmp_path: Path) -> Iterator[Bench]:
    """An empty database on the MariaDB that tests share."""
    with ExitStack() as stack:
        yield Bench(empty_on("mariadb"), servers, tmp_path, stack)


@pytest.fixture
def short_waits(bench: Bench) -> Iterator[None]:
    """Sessions of this test wait for a lock for one second."""
    names = ("innodb_lock_wait_timeout", "lock_wait_timeout")
    with driver_of("mariadb").connect(bench.endpoint, "fixture") as connection, connection.cursor() as cursor:
        cursor.execute(f"SELECT {', '.join(f'@@GLOBAL.{name}' for name in names)}")
        before = cursor.fetchone()
        cursor.execute(f"SET {', '.join(f'GLOBAL {name} = 1' for name in names)}")
        yield
        cursor.execute(f"SET {', '.join(f'GLOBAL {name} = {value}' for name, value in zip(names, before, strict=True))}")


def told(records: list[EventRecord]) -> list[tuple[str, str, int | None]]:
    return [(record.error_code, record.operation, record.job_id) for record in records]


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
        assert (error.error_code in LOST_CONNECTION, error.operation, error.job_id) == (True, "claim", None)

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
        assert (error.error_code in LOST_CONNECTION, error.operation, error.job_id) == (True, "complete", job)
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
        assert (error.error_code in LOST_CONNECTION, error.operation, error.job_id) == (True, "enqueue", None)
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

    def test_that_may_not_delete_is_told_at_every_completion(self, bench: Bench, poor: Endpoint) -> None:
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
