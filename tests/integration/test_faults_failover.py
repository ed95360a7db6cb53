"""A replica is promoted under load: only jobs that were acknowledged but not replicated are lost or re-executed."""

from __future__ import annotations

import time
from collections import Counter
from contextlib import ExitStack
from pathlib import Path

import pytest

from stallbench.engines import driver_of
from stallbench.engines.starter import answers
from stallbench.errors import NotCarriedOutError
from stallbench.queues.queue_client import opened_queue
from stallbench.records.events import Event
from stallbench.run.sampling.process import Sampling
from stallbench.setup.components import MissingComponentError
from tests.integration.faulty_run import FaultyRun, faulty_run

pytestmark = pytest.mark.integration

ON = {
    "postgres": ("skip_locked", "{}"),
    "mariadb": ("laravel", '{ innodb_buffer_pool_size = "32M" }'),
}
BEHIND_S = 3.0
BEHIND, BEHIND_EACH_COMMIT = f"{BEHIND_S:g}s", "400ms"
"""How far: longer than clients may be delayed before the primary is killed; but where each commit waits for the replica, it is not to
take longer than it must."""


def fail_over(run: FaultyRun, behind: str = BEHIND, **options: str) -> None:
    """Let the replica be behind, and then promoted; returns when clients are served by it."""
    run.wait_until_jobs_complete()
    run.inject("latency", "replication-replica-1", latency=behind)
    run.wait_until_jobs_complete(within_s=60)
    run.inject("promote", "replica-1", **options)
    run.wait_until(lambda: run.faults()[-1].verified_gone_ns is not None, "the promotion", within_s=60)
    # While it removes a toxic, Toxiproxy waits five seconds for each packet that is delayed and whose connection is closed by now.
    time.sleep(BEHIND_S)


def find_lost(run: FaultyRun) -> set[int]:
    """Return the jobs of which an enqueue was acknowledged, and which are neither in the queue nor were ever worked."""
    with opened_queue(run.scenario.queue.kind, {}, run.cluster.server("primary").direct, "final_snapshot") as opened:
        left = {job_id for job_id, _ in opened.job_ids()}
    enqueued, worked = ({int(row["job_id"]) for row in run.events(event)} for event in (Event.ENQUEUED, Event.WORKED))
    return enqueued - worked - left


@pytest.mark.parametrize(
    ("engine", "synchronous"),
    [
        pytest.param("postgres", True, id="postgres-synchronous"),
        pytest.param("mariadb", False, id="mariadb-asynchronous"),
        pytest.param("postgres", False, id="postgres-asynchronous", marks=pytest.mark.long),
        pytest.param("mariadb", True, id="mariadb-synchronous", marks=pytest.mark.long),
    ],
)
def test_clients_reach_the_promoted_replica_at_the_primary_s_address(tmp_path: Path, engine: str, synchronous: bool) -> None:
    queue, settings = ON[engine]
    with ExitStack() as stack:
        try:
            # More jobs are enqueued than can be worked, so that some wait when the primary is killed.
            run = stack.enter_context(
                faulty_run(
                    tmp_path,
                    engine=engine,
                    replicas=1,
                    synchronous=synchronous,
                    queue=queue,
                    workers=2,
                    work="50ms",
                    settings=settings,
                )
            )
        except MissingComponentError as error:
            pytest.skip(str(error))
        old = run.cluster.server("primary")
        fail_over(run, BEHIND_EACH_COMMIT if synchronous else BEHIND, detect_after="0.5s")
        record = run.faults()[-1]
        assert record.active_to_end is True
        assert record.evidence["promoted"] == "replica-1"
        assert record.evidence["down_s"] >= 0.5
        assert not answers(old.direct)
        assert run.cluster.server("primary").name == "replica-1"
        assert [server.role for server in run.cluster.servers] == ["fenced", "primary"]
        run.cluster.check()
        run.wait_until_jobs_complete(within_s=60)
        run.load.stop()
        enqueued = [int(row["job_id"]) for row in run.events(Event.ENQUEUED)]
        assert len(enqueued) == len(set(enqueued)), "no id names two jobs"
        completions = Counter(int(row["job_id"]) for row in run.events(Event.COMPLETED))
        again = {job_id for job_id, count in completions.items() if count > 1}
        if synchronous:
            assert find_lost(run) == set()
            assert again == set()
        else:
            assert find_lost(run)
            assert again


def test_the_collectors_sample_the_promoted_replica_and_no_other_is_left_to_promote(tmp_path: Path) -> None:
    with faulty_run(tmp_path, replicas=1) as run:
        sampling = Sampling(run.cluster, run.queue, interval_s=0.2, processes=run.processes, folder=run.folder)
        sampling.start()
        sampling.wait_ready()
        fail_over(run, detect_after="0s")
        sampling.follow()
        backlog = run.folder.samples / "backlog.csv"
        run.wait_until(
            lambda: any(",replica-1,queue,depth," in line for line in backlog.read_text().splitlines()), "its depth", within_s=60
        )
        sampling.stop()
        with pytest.raises(NotCarriedOutError, match="replica-1 is the primary already"):
            run.inject("promote", "replica-1")
        with driver_of("postgres").connect(run.cluster.server("primary").direct, "test") as connection:
            assert connection.execute("SELECT pg_is_in_recovery()").fetchone() == (False,)


def test_an_end_before_the_promotion_is_noticed(tmp_path: Path) -> None:
    with faulty_run(tmp_path, replicas=1, workers=0) as run:
        run.inject("promote", "replica-1", detect_after="1h")
        record = run.end_faults()
        assert record.active_to_end is False
        assert "before replica-1 was promoted" in record.why_ended
