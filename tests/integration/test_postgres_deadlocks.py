"""Deadlocks between real sessions of a real PostgreSQL: from the server's log to the drawing in the report."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path

import psycopg
import pytest

from stallbench.engines.collectors.document import CollectorsDocument, WatchedQueue, WatchedServer
from stallbench.engines.deadlocks.deadlock import Deadlock
from stallbench.engines.deadlocks.groups import DeadlockGroup
from stallbench.engines.postgres.collectors.deadlocks import DeadlocksCollector
from stallbench.engines.postgres.driver import connect
from stallbench.records.endpoint import Endpoint
from stallbench.records.samples import Sample, SampleLog
from stallbench.report.samples import find_unread_logs, read_deadlocks
from tests.integration.conftest import Connection, TestDatabase
from tests.waiting import wait_for

pytestmark = pytest.mark.integration

MakeStatement = Callable[[int], str]


@pytest.fixture
def database_with_jobs(database: TestDatabase) -> TestDatabase:
    with connect(database.direct, "fixture") as connection:
        connection.execute("CREATE TABLE jobs (id int PRIMARY KEY, state text)")
        connection.execute("INSERT INTO jobs SELECT id, 'ready' FROM generate_series(1, 4) AS id")
    return database


def watch(database: TestDatabase, log: Path | None) -> DeadlocksCollector:
    """Return a collector that reads what is written to the log from now on."""
    server = WatchedServer(
        name="primary",
        role="primary",
        endpoint=database.direct,
        log=log,
        log_bytes_before=log.stat().st_size if log else 0,
    )
    queue = WatchedQueue(kind="que", tables=("jobs",), indexes=())
    return DeadlocksCollector(
        CollectorsDocument(name="collectors", run_folder=Path("/"), interval_s=1, servers=(server,), queue=queue)
    )


def deadlock(sessions: Sequence[Connection], jobs: Sequence[int], statement: MakeStatement) -> None:
    """Let each of two sessions lock one job, and then change the other one's; returns when the server has rolled one of them back."""
    for session, job in zip(sessions, jobs, strict=True):
        session.execute("BEGIN")
        session.execute("SELECT FROM jobs WHERE id = %s FOR UPDATE", (job,))
    codes: list[str | None] = []

    def change(session: Connection, job: int) -> None:
        try:
            session.execute(statement(job).encode())
        except psycopg.Error as error:
            codes.append(error.sqlstate)
        finally:
            session.execute("ROLLBACK")

    threads = [threading.Thread(target=change, args=pair) for pair in zip(sessions, reversed(jobs), strict=True)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert codes == ["40P01"]


def read_report(collector: DeadlocksCollector, samples: Path, deadlocks: int) -> Sequence[DeadlockGroup]:
    """Sample until there are so many deadlocks, write them as a run does, and read them as its report does."""
    found: list[Sample] = []

    def has_all() -> bool:
        found.extend(collector.sample())
        return len([sample for sample in found if sample.metric == "listing"]) >= deadlocks

    wait_for(has_all, f"the reports of {deadlocks} deadlocks")
    with SampleLog(samples) as log:
        log.write(1, found)
    return read_deadlocks(samples)


def test_two_deadlocks_at_the_same_time_are_read_grouped_and_drawn(
    database_with_jobs: TestDatabase, open_connection: Callable[[Endpoint, str], Connection], tmp_path: Path
) -> None:
    sessions = [open_connection(database_with_jobs.direct, f"worker-{number}") for number in range(1, 5)]

    def delete(job: int) -> str:
        return f"DELETE FROM jobs\n  WHERE id = {job} -- one worker's"

    def update(job: int) -> str:
        return f"UPDATE jobs SET state = '{'é' * 2000}' WHERE id = {job}"

    with closing(watch(database_with_jobs, database_with_jobs.cluster.server("primary").log)) as collector:
        pairs = [(sessions[:2], (1, 2), delete), (sessions[2:], (3, 4), update)]
        threads = [threading.Thread(target=deadlock, args=pair) for pair in pairs]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        groups = read_report(collector, tmp_path / "deadlocks.csv", 2)

    of_delete, of_update = sorted(groups, key=lambda group: group.victim)
    assert (of_delete.count, of_delete.victim, of_delete.others) == (1, "DELETE FROM jobs WHERE id = ?", (of_delete.victim,))
    assert of_delete.repeats_job and not of_update.repeats_job
    assert of_delete.targets == ("a row of a table that the server does not name", "jobs")
    victim, other = of_delete.example.transactions
    assert {victim.application, other.application} == {"stallbench:worker-1", "stallbench:worker-2"}
    assert {victim.sql, other.sql} == {delete(1), delete(2)}
    assert "worker-1" in of_delete.diagram and "worker-2" in of_delete.diagram
    assert of_delete.diagram.count(">rolled back<") == 1

    assert of_update.victim == "UPDATE jobs SET state = ? WHERE id = ?"
    assert of_update.others == ("UPDATE jobs SET state = ?",)
    assert [transaction.is_cut_off for transaction in of_update.example.transactions] == [False, True]
    assert "cut off" in of_update.diagram


def test_a_table_that_the_report_has_by_number_is_named(
    database_with_jobs: TestDatabase, open_connection: Callable[[Endpoint, str], Connection], tmp_path: Path
) -> None:
    sessions = [open_connection(database_with_jobs.direct, f"worker-{number}") for number in (1, 2)]
    with closing(watch(database_with_jobs, database_with_jobs.cluster.server("primary").log)) as collector:
        for session in sessions:
            session.execute("BEGIN")
            session.execute("LOCK TABLE jobs IN SHARE MODE")
        waiting = threading.Thread(target=sessions[0].execute, args=("DELETE FROM jobs WHERE id = 1",))
        waiting.start()
        with connect(database_with_jobs.direct, "proof") as proof:
            wait_for(lambda: proof.execute("SELECT FROM pg_locks WHERE NOT granted").fetchone() is not None, "a wait")
        with pytest.raises(psycopg.errors.DeadlockDetected):
            sessions[1].execute("DELETE FROM jobs WHERE id = 2")
        waiting.join()
        (group,) = read_report(collector, tmp_path / "deadlocks.csv", 1)
    assert group.targets == ("jobs", "jobs")


def test_a_deadlock_of_an_earlier_run_on_the_same_server_is_not_one_of_this_run(
    database_with_jobs: TestDatabase, open_connection: Callable[[Endpoint, str], Connection]
) -> None:
    log = database_with_jobs.cluster.server("primary").log
    sessions = [open_connection(database_with_jobs.direct, f"worker-{number}") for number in (1, 2)]
    with closing(watch(database_with_jobs, log)) as of_earlier_run:
        deadlock(sessions, (1, 2), lambda job: f"DELETE FROM jobs WHERE id = {job}")
        assert [s.metric for s in of_earlier_run.sample()] == ["deadlock_log_read", "listing"]
        with closing(watch(database_with_jobs, log)) as collector:
            deadlock(sessions, (3, 4), lambda job: f"DELETE FROM jobs WHERE id = {job}")
            listings = [str(s.value) for s in (*of_earlier_run.sample(), *collector.sample()) if s.metric == "listing"]
    of_earlier, of_this = map(Deadlock.from_sample_value, listings)
    assert of_earlier == of_this


def test_without_the_log_it_is_recorded_that_deadlocks_are_not_seen(database: TestDatabase, tmp_path: Path) -> None:
    samples = tmp_path / "deadlocks.csv"
    with closing(watch(database, log=None)) as collector, SampleLog(samples) as log:
        log.write(1, list(collector.sample()))
    assert find_unread_logs(samples) == ["primary"]
    assert list(read_deadlocks(samples)) == []
