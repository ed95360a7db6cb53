"""`stallbench observe --record-profile` on a real MariaDB and MySQL: the load of real workers and producers, and none of their names."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path

import pytest

from stallbench.engines import driver_of
from stallbench.errors import BadInputError, NotCarriedOutError
from stallbench.queues.queue_client import opened_queue
from stallbench.records.endpoint import Endpoint
from stallbench.scenario.file import read_scenario
from tests.integration.conftest import EmptyOn
from tests.integration.engines import PrivateServers
from tests.integration.real_processes import start_recording
from tests.integration.test_observe_profile import observe

pytestmark = pytest.mark.integration

RATE, WORKERS, WORK_S, PAYLOAD_BYTES = 20.0, 4, 0.1, 700
_FOR_S = 40.0


@pytest.fixture(params=["mariadb", "mysql"])
def empty(empty_on: EmptyOn, request: pytest.FixtureRequest) -> Endpoint:
    """A database with Laravel's table."""
    endpoint = empty_on(request.param)
    with opened_queue("laravel_optimistic", {}, endpoint, "install") as queue:
        queue.install()
    return endpoint


@pytest.fixture
def busy(empty: Endpoint, servers: PrivateServers, tmp_path: Path) -> Iterator[Endpoint]:
    """Laravel's queue with workers that keep up with a known load."""
    with ExitStack() as stack:
        for number in range(1, WORKERS + 1):
            worker = start_recording(
                servers.processes,
                "worker",
                f"worker-{number}",
                empty,
                "laravel_optimistic",
                tmp_path,
                work_s=WORK_S,
                queue_options={},
            )
            stack.callback(worker.process.kill)
        producer = start_recording(
            *(servers.processes, "producer", "producer-1", empty, "laravel_optimistic", tmp_path),
            rate=RATE,
            payload_bytes=PAYLOAD_BYTES,
            queue_options={},
        )
        stack.callback(producer.process.kill)
        yield empty


@pytest.mark.long
def test_a_known_load_is_recorded_without_a_name(busy: Endpoint, tmp_path: Path) -> None:
    path = tmp_path / "profile.toml"
    observe(busy, path, for_s=_FOR_S)
    scenario, text = read_scenario(str(path), variant="longtx"), path.read_text()
    bursts = [one for one in scenario.phases[-1].faults if one.kind == "burst"]
    jobs = scenario.producers.rate * scenario.phases[-1].duration_s
    jobs += sum(one.options["rate"] * (one.for_s or scenario.phases[-1].duration_s - one.after_s) for one in bursts)
    assert jobs / scenario.phases[-1].duration_s == pytest.approx(RATE, rel=0.15), text
    assert 2 <= scenario.workers.count <= WORKERS, text
    assert WORK_S / 2 < scenario.workers.work_s < WORK_S * 2.5, text
    assert scenario.producers.payload_bytes == pytest.approx(PAYLOAD_BYTES, rel=0.5), text
    assert (scenario.database.engine, scenario.queue.kind) == (busy.engine, "laravel")
    assert "kind-1: 100%" in text
    names = (
        "jobs (",
        "default",
        busy.host,
        busy.database,
        str(busy.port),
        "worker-1",
        "producer-1",
        "displayName",
        "reserved_at",
    )
    assert not [name for name in names if name and name in text]
    read_scenario(str(path), variant="longtx_watchdog")


@pytest.mark.long
def test_nothing_is_invented_of_an_idle_queue(empty: Endpoint, tmp_path: Path) -> None:
    with pytest.raises(NotCarriedOutError, match=r"no profile was written.*no job was enqueued.*the number of workers.*the work"):
        observe(empty, tmp_path / "profile.toml", for_s=30.0)
    assert not (tmp_path / "profile.toml").exists()


def test_a_queue_that_cannot_be_recorded_is_refused_at_once(empty: Endpoint, tmp_path: Path) -> None:
    with closing(driver_of("mariadb").connect(empty, "fixture")) as connection, connection.cursor() as cursor:
        cursor.execute("CREATE TABLE own_jobs (id int)")
        with pytest.raises(BadInputError, match="is not the table of a known library"):
            observe(empty, tmp_path / "profile.toml", for_s=600, tables=("own_jobs",))
        cursor.execute("ALTER TABLE jobs MODIFY id bigint unsigned NOT NULL")
        with pytest.raises(BadInputError, match="has no AUTO_INCREMENT"):
            observe(empty, tmp_path / "profile.toml", for_s=30)
