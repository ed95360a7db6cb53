"""A completion is recorded only if the library has stored it."""

from __future__ import annotations

from pathlib import Path

import pytest
from psycopg.sql import SQL

from stallbench.engines.postgres.driver import Connection, connect
from stallbench.queues import find_queue
from stallbench.records.events import Event
from tests.integration.faulty_run import faulty_run

pytestmark = [pytest.mark.integration, pytest.mark.libraries]

REFUSE_COMPLETIONS = """
CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'no completion is stored'; END $$;
CREATE TRIGGER refuse BEFORE UPDATE ON pgboss.job_common FOR EACH ROW WHEN (NEW.state = 'completed') EXECUTE FUNCTION refuse();
"""
FAILED = 10


def count(connection: Connection, states: str) -> int:
    (found,) = connection.execute(SQL("SELECT count(*) FROM pgboss.job_common WHERE {}").format(SQL(states))).fetchone() or (0,)
    return int(found)


def test_pg_boss_fails_the_jobs_whose_completion_the_server_has_refused(tmp_path: Path) -> None:
    """It offers them again: their handlers were executed, and they are not completed."""
    find_queue("library:pg_boss").require_programs(print)
    with faulty_run(tmp_path, queue="library:pg_boss") as run:
        run.wait_until_jobs_complete()
        with connect(run.cluster.server("primary").direct, "test") as connection:
            connection.execute(REFUSE_COMPLETIONS)
            run.wait_until(lambda: count(connection, "state IN ('retry', 'failed')") >= FAILED, f"{FAILED} failed jobs")
            run.load.stop()
            completed = count(connection, "state = 'completed'")
        assert len(run.events(Event.COMPLETED)) == completed
        assert len(run.events(Event.FAILED)) >= FAILED
