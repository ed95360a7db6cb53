"""A server that is killed under the real worker and the real producer, and comes back: with everything, or with nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path

import pytest

from stallbench.base.section import SettingValue
from stallbench.engines import EngineName, driver_of
from stallbench.queues.queue_client import opened_queue
from stallbench.records.endpoint import Endpoint
from stallbench.records.events import Event
from stallbench.setup.components import MissingComponentError
from tests.error_details import split_error
from tests.integration.conftest import EmptyOn
from tests.integration.engines import PrivateServers
from tests.integration.real_processes import RecordingProcess, start_recording

pytestmark = pytest.mark.integration

KEEPING: list[tuple[str, EngineName, Mapping[str, SettingValue]]] = [
    ("laravel", "mariadb", {"innodb_buffer_pool_size": "32M"}),
    ("laravel_redis", "redis", {"appendonly": True, "appendfsync": "always"}),
]
FORGETTING: list[tuple[str, EngineName, Mapping[str, SettingValue]]] = [
    ("laravel_redis", "redis", {"save": ""}),
    ("beanstalkd", "beanstalkd", {}),
]
LOST_CONNECTION = {"2003", "2006", "2013", "1053", "ConnectionError", "ConnectionLostError", "ConnectionRefusedError"}
"""What the drivers call it, and what they call the refusal of who comes again before the server does."""
WAITING = 100
"""Jobs: two seconds of the worker's time, if the producer stands still."""

StartOn = Callable[..., RecordingProcess]


@pytest.fixture
def start_on(servers: PrivateServers, tmp_path: Path) -> Iterator[StartOn]:
    """Starts a worker or a producer on a queue, on a place."""
    with ExitStack() as stack:

        def start(role: str, kind: str, endpoint: Endpoint, **document: object) -> RecordingProcess:
            started = start_recording(servers.processes, role, f"{role}-1", endpoint, kind, tmp_path, **document)
            stack.callback(started.process.kill)
            return started

        yield start


def crash_under_load(
    kind: str, engine: EngineName, settings: Mapping[str, SettingValue], servers: PrivateServers, start_on: StartOn
) -> tuple[set[int], list[int], list[int]]:
    """Kill the server under a producer and a worker that both go on afterwards.

    Returns the jobs that are left or whose completion raised, so that their outcome is unknown; those that were enqueued; and
    those that were completed, once for each time.
    """
    try:
        server = servers.start(engine, settings)
    except MissingComponentError as error:
        pytest.skip(str(error))
    with opened_queue(kind, {}, server.endpoint, "install") as queue:
        queue.install()
    producer = start_on("producer", kind, server.endpoint, rate=200)
    worker = start_on("worker", kind, server.endpoint, work_s=0.02)
    worker.wait_for(Event.COMPLETED, 10)
    producer.wait_until(
        lambda records: len(records) >= len(worker.of(Event.COMPLETED)) + WAITING,
        "so many jobs that some still wait at the crash",
    )
    assert server.process is not None
    servers.kill(server.process)()
    wait_until_both_go_on(producer, worker)
    errors = producer.of(Event.ERROR) + worker.of(Event.ERROR)
    assert errors
    assert {split_error(error.detail)[0] for error in errors} <= LOST_CONNECTION
    with opened_queue(kind, {}, server.endpoint, "final_snapshot") as queue:
        left = {job_id for job_id, _ in queue.job_ids()} | set(ids_of(worker, Event.ERROR))
    return left, ids_of(producer, Event.ENQUEUED), ids_of(worker, Event.COMPLETED)


def wait_until_both_go_on(producer: RecordingProcess, worker: RecordingProcess) -> None:
    """Wait for some more jobs to go in and out, and end both."""
    for process, event in ((producer, Event.ENQUEUED), (worker, Event.COMPLETED)):
        process.wait_for(event, len(process.of(event)) + 10)
    producer.end()
    worker.end()


def ids_of(process: RecordingProcess, event: Event) -> list[int]:
    return [record.job_id for record in process.of(event) if record.job_id is not None]


@pytest.mark.parametrize(("kind", "engine", "settings"), KEEPING)
def test_a_server_that_keeps_what_it_confirmed_loses_no_job(
    kind: str, engine: EngineName, settings: Mapping[str, SettingValue], servers: PrivateServers, start_on: StartOn
) -> None:
    left, enqueued, completed = crash_under_load(kind, engine, settings, servers, start_on)
    assert set(enqueued) <= left | set(completed)


@pytest.mark.parametrize(("kind", "engine", "settings"), FORGETTING)
def test_a_job_that_a_server_lost_is_found_by_its_id_and_nothing_else_is_missing(
    kind: str, engine: EngineName, settings: Mapping[str, SettingValue], servers: PrivateServers, start_on: StartOn
) -> None:
    left, enqueued, completed = crash_under_load(kind, engine, settings, servers, start_on)
    assert len(enqueued) == len(set(enqueued)), "an id that is given twice hides a lost job"
    assert len(completed) == len(set(completed))
    lost = sorted(set(enqueued) - left - set(completed))
    places = [enqueued.index(job_id) for job_id in lost]
    assert lost, "some were waiting"
    assert places == list(range(places[0], places[0] + len(places))), "they were all in the queue at one moment"


def test_postgres_ends_the_sessions_of_a_queue_that_would_have_rolled_back(empty_on: EmptyOn, start_on: StartOn) -> None:
    endpoint = empty_on("postgres")
    with opened_queue("laravel", {}, endpoint, "install") as queue:
        queue.install()
    producer = start_on("producer", "laravel", endpoint, rate=200)
    worker = start_on("worker", "laravel", endpoint, queue_options={"retry_after": 1})
    with driver_of("postgres").connect(endpoint, "test") as admin:
        for number in range(1, 4):
            worker.wait_for(Event.COMPLETED, 10 * number)
            admin.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name ~ '^stallbench:(worker|producer)'"
            )
    wait_until_both_go_on(producer, worker)
    for process in (producer, worker):
        kinds = {split_error(error.detail)[0] for error in process.of(Event.ERROR)}
        assert kinds
        assert kinds <= {"57P01", "OperationalError"}, "as the server said, or as libpq found"
    with opened_queue("laravel", {}, endpoint, "final_snapshot") as queue:
        left = {job_id for job_id, _ in queue.job_ids()}
    # A session that is ended between the commit of a completion and its answer leaves its worker without knowing.
    unknown = set(ids_of(worker, Event.ERROR))
    assert set(ids_of(producer, Event.ENQUEUED)) <= left | set(ids_of(worker, Event.COMPLETED)) | unknown
