"""Every version of PostgreSQL: servers and replicas start from the packages, which have no clients, and all that is read of a server is there."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from stallbench.engines.collectors.document import CollectorsDocument, WatchedQueue, WatchedServer
from stallbench.engines.database import Database
from stallbench.queues import NewJob
from stallbench.queues.queue_client import opened_queue
from stallbench.records.endpoint import Endpoint
from stallbench.run.sampling import collectors_for
from stallbench.servers.cluster import Cluster
from stallbench.setup.components import MissingComponentError
from stallbench.setup.postgres_packages import list_packaged_majors, require_version
from tests.integration.observed import cannot_see, look_at, observer_of, section_of, text_of
from tests.integration.running_cluster import running_cluster
from tests.integration.statistics import publish_statistics

pytestmark = pytest.mark.integration

_VERSIONS = [pytest.param(major, marks=[] if major == 14 else pytest.mark.long) for major in (14, 15, 16, 17, 18)]
"""In `make test` the oldest, which lacks most; most other tests have a newer one, and tests/end_to_end/test_matrix.py runs on the newest."""


@pytest.mark.parametrize("major", _VERSIONS)
def test_a_version_is_started_with_a_replica_sampled_and_observed(major: int, tmp_path: Path) -> None:
    if major not in list_packaged_majors():
        pytest.skip("there is no package for this machine")
    try:
        programs = require_version(major, packaged=True)
    except MissingComponentError as error:
        pytest.skip(str(error))
    assert not (programs.bin_dir / "pg_basebackup").exists()
    database = Database(
        version=str(major),
        packaged=True,
        replicas=1,
        replication_slot=major in (14, 18),
        hot_standby_feedback=True,
        settings={"fsync": False},
    )
    with running_cluster(database, tmp_path) as started:
        cluster = started.cluster
        assert {server.control.version.split(".")[0] for server in cluster.servers} == {str(major)}
        primary = cluster.server("primary").direct
        with opened_queue("que", {}, primary, "test") as queue:
            queue.install()
            queue.enqueue([NewJob(payload="{}")] * 3)
            queue.connection.execute("DELETE FROM que_jobs WHERE job_id = 1")
            publish_statistics(queue.connection)
            slots = queue.connection.execute("SELECT slot_name, active FROM pg_replication_slots").fetchall()
            assert slots == ([("replica_1", True)] if database.replication_slot else []), "the slot of the copy is gone"
        samples = _sample_everything(cluster, tmp_path)
        assert samples["table:que_jobs", "live_tuples"] == 2
        assert samples["queue", "depth"] == 2
        unseen = cannot_see(look_at(primary, {"replica-1": cluster.server("replica-1").direct}))
        assert "does not exist" not in unseen, "every query of `observe` fits this version"
        assert "what is different" not in unseen
        _require_own_queries_unlisted(primary)


def _require_own_queries_unlisted(endpoint: Endpoint) -> None:
    """PostgreSQL 18 counts a statement without the comment before it."""
    with observer_of(endpoint) as observer:
        for _ in range(3):
            section = section_of(observer.read(reads_everything=True), "Statements")
    assert not [row for row in section.rows if "pg_stat_get_dead" in row[0] or "pg_stat_statements" in row[0]]
    assert "The queries of this observation took" in text_of(section)


def _sample_everything(cluster: Cluster, folder: Path) -> dict[tuple[str, str], Any]:
    """Let every collector sample once; an error of any of them fails the test."""
    (folder / "samples").mkdir()
    document = CollectorsDocument(
        name="collectors",
        run_folder=folder,
        interval_s=1,
        servers=tuple(
            WatchedServer(name=server.name, role=server.role, endpoint=server.direct, log=server.log)
            for server in cluster.servers
        ),
        queue=WatchedQueue(kind="que", tables=("que_jobs",), indexes=("que_jobs_pkey",), advisory_locks=1),
    )
    found: dict[tuple[str, str], Any] = {}
    for kind in collectors_for("postgres").values():
        with closing(kind(document)) as collector:
            found |= {(sample.subject, sample.metric): sample.value for sample in collector.sample()}
    return found
