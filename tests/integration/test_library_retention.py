"""Whether a completed job stays in a table of its library, as the definition says."""

from __future__ import annotations

from pathlib import Path

import pytest
from psycopg.sql import SQL, Identifier

from stallbench.engines.postgres.driver import Connection, connect
from stallbench.libraries import find_libraries, find_library
from stallbench.libraries.installation import find_missing_requirement
from stallbench.queues import find_queue
from stallbench.queues.queue_client import opened_queue
from stallbench.records.events import Event
from tests.integration.faulty_run import faulty_run

pytestmark = [pytest.mark.integration, pytest.mark.libraries]

COMPLETED = 50


def count_rows(connection: Connection, table: str) -> int:
    (count,) = connection.execute(SQL("SELECT count(*) FROM {}").format(Identifier(*table.split(".")))).fetchone() or (0,)
    return int(count)


@pytest.mark.parametrize("name", sorted(find_libraries()))
def test_a_completed_job_stays_or_is_deleted(tmp_path: Path, name: str) -> None:
    library = find_library(name)
    if missing := find_missing_requirement(library):
        pytest.skip(missing)
    kind = f"library:{name}"
    find_queue(kind).require_programs(print)
    with faulty_run(tmp_path, queue=kind) as run:
        run.wait_until_jobs_complete(COMPLETED)
        run.load.stop()
        primary = run.cluster.server("primary").direct
        with opened_queue(kind, run.queue.options, primary, "snapshot") as queue:
            held = len(list(queue.job_ids()))
        with connect(primary, "test") as connection:
            rows = sum(count_rows(connection, table) for table in library.tables)
        completed = len({row["job_id"] for row in run.events(Event.COMPLETED)})
    assert library.retention is not None
    assert library.retention.kept == (rows - held >= completed), f"{rows} rows, {completed} jobs completed, {held} held"
