"""The error that a library's producer reports when the server refuses an enqueue: the server's own code, whatever the library wraps it in."""

from __future__ import annotations

import pytest

from stallbench.engines import driver_of, loaded_errors
from stallbench.engines.traits import Engine
from stallbench.libraries import find_libraries, find_library
from stallbench.libraries.installation import find_missing_requirement
from stallbench.processes.queue_client import opened_queue
from stallbench.queues import NewJob
from stallbench.queues.library_queue import LibraryQueue
from tests.integration.conftest import EmptyOn

pytestmark = [pytest.mark.integration, pytest.mark.libraries]

REPEATS = ("dramatiq_pg",)
"""Those that repeat a refused statement for minutes, longer than the bench waits for an answer: `docs/add-a-library.md`."""
VIOLATED_CHECK: dict[Engine, str] = {"postgres": "23514", "mariadb": "4025"}


@pytest.mark.parametrize(
    ("name", "engine"),
    [
        (name, engine)
        for engine in VIOLATED_CHECK
        for name, library in sorted(find_libraries().items())
        if engine in library.engines and name not in REPEATS
    ],
)
def test_an_enqueue_that_the_server_refuses_has_the_server_s_code(empty_on: EmptyOn, name: str, engine: Engine) -> None:
    library = find_library(name)
    if missing := find_missing_requirement(library):
        pytest.skip(missing)
    with opened_queue(f"library:{name}", {}, empty_on(engine), "test") as queue:
        assert isinstance(queue, LibraryQueue)
        queue.require_programs(print)
        queue.install()
        with queue.connection.cursor() as cursor:
            for table in library.tables:
                cursor.execute(f"ALTER TABLE {table} ADD CONSTRAINT nothing_is_allowed CHECK (1 = 0)")
        with pytest.raises(loaded_errors()) as refused:
            queue.enqueue([NewJob(payload="{}")])
    assert driver_of(engine).code(refused.value) == VIOLATED_CHECK[engine], refused.value
