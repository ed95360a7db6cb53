"""The error that a library's producer reports when an enqueue fails, whatever the library wraps it in.

The server's own code if the server refuses it, and one that is known to be of the connection if there is no server.
"""

from __future__ import annotations

import pytest

from stallbench.engines import EngineName, driver_of, loaded_errors
from stallbench.engines.error_codes import find_error_kind
from stallbench.engines.error_kinds import ErrorKind
from stallbench.libraries import find_libraries, find_library
from stallbench.libraries.installation import find_missing_requirement
from stallbench.queues import NewJob
from stallbench.queues.library_queue import LibraryQueue
from stallbench.queues.queue_client import opened_queue
from stallbench.records.events import ENQUEUE
from tests.integration.conftest import EmptyOn
from tests.integration.relay import relay_before

pytestmark = [pytest.mark.integration, pytest.mark.libraries]

REPEATS = ("dramatiq_pg",)
"""Those that repeat a refused statement for minutes, longer than the bench waits for an answer: `docs/add-a-library.md`."""
VIOLATED_CHECK: dict[EngineName, str] = {"postgres": "23514", "mariadb": "4025"}
CASES = [
    (name, engine)
    for engine in VIOLATED_CHECK
    for name, library in sorted(find_libraries().items())
    if engine in library.engines and name not in REPEATS
]


@pytest.mark.parametrize(("name", "engine"), CASES)
def test_an_enqueue_that_the_server_refuses_has_the_server_s_code(empty_on: EmptyOn, name: str, engine: EngineName) -> None:
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


@pytest.mark.parametrize(("name", "engine"), CASES)
def test_an_enqueue_without_a_server_has_an_error_that_is_known_to_be_of_the_connection(
    empty_on: EmptyOn, name: str, engine: EngineName
) -> None:
    library = find_library(name)
    if missing := find_missing_requirement(library):
        pytest.skip(missing)
    errors = []
    with relay_before(empty_on(engine)) as relay, opened_queue(f"library:{name}", {}, relay.endpoint, "test") as queue:
        queue.require_programs(print)
        queue.install()
        queue.enqueue([NewJob(payload="{}")])
        relay.cut()
        for _ in ("on the connection that was cut", "on one that cannot be opened"):
            with pytest.raises(loaded_errors()) as refused:
                queue.enqueue([NewJob(payload="{}")])
            errors.append(driver_of(engine).code(refused.value))
    for code in errors:
        assert find_error_kind(code, ENQUEUE) in (ErrorKind.CONNECTION_LOST, ErrorKind.CANNOT_CONNECT), errors
