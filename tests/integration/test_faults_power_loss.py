"""A power failure under load: what was acknowledged without a sync is lost, and nothing else."""

from __future__ import annotations

from pathlib import Path

import pytest

from stallbench.engines.postgres.driver import connect
from stallbench.engines.volatile_disk import require_volatile_disk
from stallbench.errors import NotCarriedOutError
from stallbench.records.events import Event
from tests.integration.faulty_run import faulty_run
from tests.integration.test_faults_outage import find_lost, is_over

pytestmark = pytest.mark.integration


@pytest.mark.parametrize("synchronous_commit", ["on", "off"])
def test_only_commits_that_did_not_wait_for_their_sync_are_lost(tmp_path: Path, synchronous_commit: str) -> None:
    try:
        require_volatile_disk()
    except NotCarriedOutError as error:
        pytest.skip(str(error))
    settings = f'{{ synchronous_commit = "{synchronous_commit}", wal_writer_delay = "10s" }}'
    with faulty_run(tmp_path, workers=0, settings=settings, database="volatile_cache = true") as run:
        with connect(run.cluster.server("primary").direct, "test") as connection:
            connection.execute("CHECKPOINT")  # syncs all so far: the queue's tables were created without a sync, too
        synced = len(run.events(Event.ENQUEUED))
        run.wait_until(lambda: len(run.events(Event.ENQUEUED)) > synced + 50, "acknowledged jobs")
        record = run.inject("power_loss", down_for="0s")
        run.wait_until(lambda: is_over(run), "its return")
        assert record.evidence["unsynced_bytes"] > 0
        assert bool(find_lost(run)) == (synchronous_commit == "off")
    assert str(run.scratch) not in Path("/proc/mounts").read_text()


def test_it_requires_a_volatile_cache(tmp_path: Path) -> None:
    with faulty_run(tmp_path, workers=0) as run, pytest.raises(NotCarriedOutError, match=r"database\.volatile_cache"):
        run.inject("power_loss")
