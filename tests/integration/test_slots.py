"""WAL that the primary keeps for an inactive slot: the collector shows it, and the slot guard drops the slot."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from stallbench.engines.collectors.document import CollectorsDocument, WatchedQueue, WatchedServer
from stallbench.engines.postgres.collectors.slots import SlotsCollector
from stallbench.engines.postgres.driver import connect
from stallbench.injection.maintenance import TaskDocument, find_maintenance_kinds
from stallbench.records.endpoint import Endpoint
from tests.integration.conftest import EmptyOn

pytestmark = pytest.mark.integration

SLOT = "stallbench_test_slots"
WRITTEN_BYTES = 2 << 20


@pytest.fixture
def endpoint(empty_on: EmptyOn) -> Iterator[Endpoint]:
    """A database on a server with a slot from which nobody reads, and for which WAL is kept."""
    endpoint = empty_on("postgres")
    with connect(endpoint, "test") as connection:
        connection.execute("SELECT pg_create_physical_replication_slot(%s, true)", (SLOT,))
        connection.execute(f"CREATE TABLE written AS SELECT repeat('x', 1000) FROM generate_series(1, {WRITTEN_BYTES // 1000})")
    yield endpoint
    with connect(endpoint, "test") as connection:
        connection.execute("SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots WHERE slot_name = %s", (SLOT,))


def test_the_wal_that_a_slot_needs_is_seen(endpoint: Endpoint, tmp_path: Path) -> None:
    primary = WatchedServer(name="primary", role="primary", endpoint=endpoint)
    queue = WatchedQueue(kind="que", tables=(), indexes=())
    document = CollectorsDocument(name="collectors", run_folder=tmp_path, interval_s=1, servers=(primary,), queue=queue)
    with closing(SlotsCollector(document)) as collector:
        values = {(sample.subject, sample.metric): sample.value for sample in collector.sample()}
    assert values[f"slot:{SLOT}", "active"] == 0
    assert values[f"slot:{SLOT}", "wal_status"] in ("reserved", "extended")
    assert float(values[f"slot:{SLOT}", "slot_wal_bytes"]) > WRITTEN_BYTES
    assert float(values["server", "wal_kept_bytes"]) > WRITTEN_BYTES


@pytest.mark.parametrize(("keeps_more_than_mb", "is_dropped"), [(1, True), (100_000, False)])
def test_the_guard_drops_an_inactive_slot_over_its_limit(endpoint: Endpoint, keeps_more_than_mb: int, is_dropped: bool) -> None:
    kind = find_maintenance_kinds()["slot_guard"]
    options = kind.options_type.model_validate({"keeps_more_than_mb": keeps_more_than_mb})
    task = kind(TaskDocument(name="slot_guard-1", kind="slot_guard", endpoint=endpoint), options)
    with connect(endpoint, "test") as connection:
        actions = [action for action in task.iterate(connection) if SLOT in action]
        left = connection.execute("SELECT 1 FROM pg_replication_slots WHERE slot_name = %s", (SLOT,)).fetchall()
    assert bool(actions) is is_dropped
    assert bool(left) is not is_dropped
