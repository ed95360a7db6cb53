"""Servers that are killed or restarted under load: what clients see, that nothing is lost, and that it is the same server."""

from __future__ import annotations

import signal
import time
from contextlib import ExitStack
from pathlib import Path

import pytest

from stallbench.engines.starter import answers
from stallbench.errors import NotCarriedOutError
from stallbench.queues.queue_client import opened_queue
from stallbench.records.events import Event
from stallbench.setup.components import MissingComponentError
from tests.integration.faulty_run import FaultyRun, faulty_run

pytestmark = pytest.mark.integration

ON = {
    "postgres": ("skip_locked", "{}"),
    "mariadb": ("laravel", '{ innodb_buffer_pool_size = "32M" }'),
    "redis": ("laravel_redis", '{ appendonly = true, appendfsync = "always" }'),
}


def find_lost(run: FaultyRun) -> set[int]:
    """Return the jobs of which an enqueue was acknowledged, and which are neither in the queue nor were ever worked."""
    run.load.stop()
    queue = run.scenario.queue
    with opened_queue(queue.kind, {}, run.cluster.server("primary").direct, "final_snapshot") as opened:
        left = {job_id for job_id, _ in opened.job_ids()}
    enqueued, worked = ({int(row["job_id"]) for row in run.events(event)} for event in (Event.ENQUEUED, Event.WORKED))
    return enqueued - worked - left


def is_over(run: FaultyRun) -> bool:
    """Whether the last fault has ended by itself."""
    return run.faults()[-1].verified_gone_ns is not None


@pytest.mark.parametrize(
    ("kind", "engine"),
    [
        ("crash", "postgres"),
        pytest.param("crash", "mariadb", marks=pytest.mark.long),  # test_crashes.py: with its jobs
        pytest.param("crash", "redis", marks=pytest.mark.long),
        ("restart", "postgres"),
        pytest.param("restart", "mariadb", marks=pytest.mark.long),
    ],
)
def test_clients_reconnect_to_the_same_server_and_nothing_is_lost(tmp_path: Path, engine: str, kind: str) -> None:
    queue, settings = ON[engine]
    with ExitStack() as stack:
        try:
            run = stack.enter_context(faulty_run(tmp_path, engine=engine, queue=queue, workers=1, settings=settings))
        except MissingComponentError as error:
            pytest.skip(str(error))
        run.wait_until_jobs_complete()
        server = run.cluster.server("primary")
        before, began_ns = server.control.process, time.time_ns()
        assert before is not None
        run.inject(kind, down_for="0.5s")
        run.wait_until(lambda: before.poll() is not None and not answers(server.direct), "its end")
        run.cluster.check()
        run.wait_until(lambda: is_over(run), "its return", within_s=60)
        record = run.faults()[-1]
        assert record.active_to_end is True
        assert record.evidence["exit_code"] == (-9 if kind == "crash" else 0)
        assert record.evidence["down_s"] >= 0.5
        assert server.control.process is not before
        run.wait_until(lambda: run.events(Event.ERROR, began_ns), "an error of a client")
        run.wait_until_jobs_complete()
        assert find_lost(run) == set()
        run.cluster.check()


def test_a_replica_can_crash_and_replicates_again(tmp_path: Path) -> None:
    with faulty_run(tmp_path, replicas=1, workers=1) as run:
        run.inject("crash", "replica-1", down_for="0s")
        run.wait_until(lambda: is_over(run), "its return")
        assert not run.events(Event.ERROR)


def test_a_server_that_is_killed_while_it_starts_ends_the_run(tmp_path: Path) -> None:
    with faulty_run(tmp_path, workers=0) as run:
        run.inject("crash", down_for="0s")
        control = run.cluster.server("primary").control
        first = control.process
        run.injections.run_due()  # once: the next time it might answer already
        assert control.process is not None
        assert control.process is not first
        control.process.signal(signal.SIGKILL)
        with pytest.raises(NotCarriedOutError, match="server primary was ended by SIGKILL"):
            run.wait_until(lambda: is_over(run), "its return")
        run.injections.undo_all()


def test_a_server_that_is_down_cannot_be_taken_down_again(run: FaultyRun) -> None:
    run.inject("crash", down_for="1h")
    run.wait_until(lambda: not answers(run.cluster.server("primary").direct), "its end")
    with pytest.raises(NotCarriedOutError, match="primary is not running"):
        run.inject("restart")
    run.injections.undo_all()
    assert answers(run.cluster.server("primary").direct)


def test_its_end_starts_the_server_at_once(run: FaultyRun) -> None:
    run.inject("crash", down_for="1h")
    run.go_on_for(0.3)
    assert not answers(run.cluster.server("primary").direct)
    record = run.end_faults()
    assert answers(run.cluster.server("primary").direct)
    assert 0.2 <= record.evidence["down_s"] < 60
    run.wait_until_jobs_complete()
