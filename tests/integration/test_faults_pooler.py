"""pgbouncer between the clients and a real PostgreSQL: what works, what fails, and that nothing is left."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from stallbench.engines.postgres.driver import connect
from stallbench.errors import NotCarriedOutError
from stallbench.records.events import Event
from stallbench.setup.server_programs import find_server
from tests.integration.faulty_run import FaultyRun, faulty_run

pytestmark = [
    pytest.mark.integration,
    pytest.mark.skipif(find_server("pgbouncer") is None, reason="pgbouncer is not there; make setup brings it"),
]

NO_SUCH_STATEMENT, STATEMENT_THERE, WRONG_STATEMENT = "26000", "42P05", "08P01"


def leaked_locks(run: FaultyRun) -> int:
    with connect(run.cluster.server("primary").direct, "test") as connection:
        row = connection.execute("SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND granted").fetchone()
    assert row is not None
    return int(row[0])


def wait_until_all_are_back(run: FaultyRun, since_ns: int) -> None:
    """Each client loses its connection when the pooler comes, and one that stands still sees that late."""
    clients = {process.name for role in ("worker", "producer") for process in run.load.running(role)}

    def last_ns(*events: Event) -> dict[str, int]:
        rows = [row for event in events for row in run.events(event, since_ns)]
        return {name: max((int(row["t_ns"]) for row in rows if row["process"] == name), default=0) for name in clients}

    def are_back() -> bool:
        lost, served = last_ns(Event.ERROR), last_ns(Event.COMPLETED, Event.ENQUEUED)
        return all(0 < lost[name] < served[name] for name in clients)

    run.wait_until(are_back, "a move of each client after it lost its connection")


def test_transactions_without_prepared_statements_share_few_connections(tmp_path: Path) -> None:
    with faulty_run(tmp_path, workers=4, prepared_statements=False) as run:
        run.wait_until_jobs_complete(5)
        struck_ns = time.time_ns()
        record = run.inject("pooler", pool_size=2)
        wait_until_all_are_back(run, struck_ns)
        began_ns = time.time_ns()
        run.wait_until_jobs_complete(40)
        assert not run.events(Event.ERROR, began_ns)
        record = run.end_faults()
        assert record.active_to_end is True
        assert record.evidence["most"]["clients"] >= 4
        assert record.evidence["most"]["server_connections"] <= 2
        run.wait_until_jobs_complete(5)
        assert not run.processes.exited_unexpectedly()
        assert not list(run.scratch.glob("pooler-*"))


def test_statements_prepared_by_name_are_lost_or_found_by_others(tmp_path: Path) -> None:
    with faulty_run(tmp_path, workers=4) as run:
        run.wait_until_jobs_complete(5)
        began_ns = time.time_ns()
        run.inject("pooler", pool_size=2)
        expected = {NO_SUCH_STATEMENT, STATEMENT_THERE, WRONG_STATEMENT}
        run.wait_until(
            lambda: {row["detail"].split()[0] for row in run.events(Event.ERROR, began_ns)} & expected, "a lost statement"
        )
        run.end_faults()
        run.wait_until_jobs_complete(20)


def test_in_session_mode_everything_works(tmp_path: Path) -> None:
    with faulty_run(tmp_path, queue="que") as run:
        struck_ns = time.time_ns()
        run.inject("pooler", mode="session", pool_size=10)
        wait_until_all_are_back(run, struck_ns)
        began_ns = time.time_ns()
        run.wait_until_jobs_complete(20)
        assert not run.events(Event.ERROR, began_ns)
        run.end_faults()


def test_session_advisory_locks_remain_on_a_server_connection_that_other_clients_use(tmp_path: Path) -> None:
    with faulty_run(tmp_path, queue="que", workers=4, prepared_statements=False) as run:
        run.wait_until_jobs_complete(5)
        run.inject("pooler", pool_size=3)
        run.wait_until(lambda: leaked_locks(run) > 4, "more locks than there are workers")
        run.end_faults()
        run.wait_until(lambda: leaked_locks(run) <= 4, "the end of the locks with the pooler's connections")
        run.wait_until_jobs_complete(5)


def test_a_pooler_of_the_whole_run_is_there_before_any_client(tmp_path: Path) -> None:
    with faulty_run(tmp_path, workers=4, prepared_statements=False, database='pooler = "transaction"\npooler_size = 2') as run:
        run.wait_until_jobs_complete(40)
        assert not run.events(Event.ERROR)
        primary = run.cluster.server("primary")
        assert primary.pooler is not None
        assert (
            primary.record().pooler
            == f"pgbouncer {primary.pooler.version}: transaction mode, at most 2 connections to the server"
        )
        (pool,) = primary.pooler.pools()
        assert int(pool["cl_active"]) + int(pool["cl_waiting"]) >= 4
        assert int(pool["sv_active"]) + int(pool["sv_idle"]) + int(pool["sv_used"]) <= 2


def test_a_pooler_that_ends_by_itself_ends_the_run(tmp_path: Path) -> None:
    with faulty_run(tmp_path, workers=0, prepared_statements=False, database='pooler = "session"') as run:
        pooler = run.cluster.server("primary").pooler
        assert pooler is not None
        pooler.process.kill()
        run.wait_until(lambda: pooler.process.poll() is not None, "the end of the pooler")
        with pytest.raises(NotCarriedOutError, match=r"^pooler was ended by SIGKILL"):
            run.cluster.check()
