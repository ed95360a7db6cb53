"""A library connects as a user whose name and password have characters that an address gives another meaning."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from psycopg import sql
from pydantic import SecretStr

from stallbench.engines.postgres.driver import connect
from stallbench.libraries import find_libraries, find_library
from stallbench.libraries.installation import find_missing_requirement
from stallbench.queues import NewJob
from stallbench.queues.library_queue import LibraryQueue
from stallbench.queues.queue_client import opened_queue
from stallbench.records.endpoint import Endpoint
from tests.integration.conftest import EmptyOn

pytestmark = [pytest.mark.integration, pytest.mark.libraries]

USER, PASSWORD = "queue@staging", "p@ss:w/o%41?&#["


@pytest.fixture
def odd(empty_on: EmptyOn) -> Iterator[Endpoint]:
    """An empty database, as that user."""
    endpoint = empty_on("postgres")
    role = sql.Identifier(USER)
    with connect(endpoint, "test") as connection:
        connection.execute(sql.SQL("CREATE ROLE {} LOGIN SUPERUSER PASSWORD {}").format(role, sql.Literal(PASSWORD)))
    yield endpoint.model_copy(update={"user": USER, "password": SecretStr(PASSWORD)})
    with connect(endpoint, "test") as connection:
        connection.execute(sql.SQL("REASSIGN OWNED BY {} TO CURRENT_USER").format(role))
        connection.execute(sql.SQL("DROP OWNED BY {}").format(role))
        connection.execute(sql.SQL("DROP ROLE {}").format(role))


@pytest.mark.parametrize("name", [name for name, library in sorted(find_libraries().items()) if "postgres" in library.engines])
def test_jobs_are_enqueued(odd: Endpoint, name: str) -> None:
    if missing := find_missing_requirement(find_library(name)):
        pytest.skip(missing)
    with opened_queue(f"library:{name}", {}, odd, "test") as queue:
        assert isinstance(queue, LibraryQueue)
        queue.require_programs(print)
        queue.install()
        jobs = queue.enqueue([NewJob(payload="{}")])
        assert list(queue.job_ids()) == [(job, False) for job in jobs]
