"""Enqueues that send notifications, on a real server: that they commit one after the other, and that nothing is left."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest

from stallbench.engines.postgres.driver import connect
from stallbench.errors import NotCarriedOutError
from stallbench.servers.join import ExternalServerControl, open_adapter
from tests.integration.faulty_run import PATIENCE_S, FaultyRun, faulty_run

pytestmark = pytest.mark.integration

_LEFT = """
SELECT (SELECT count(*) FROM pg_trigger WHERE tgname LIKE 'stallbench_%') + (SELECT count(*) FROM pg_proc WHERE proname LIKE 'stallbench_%')
"""


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FaultyRun]:
    """One run for all tests of this file; each puts it right again."""
    with faulty_run(tmp_path_factory.mktemp("notify"), workers=1) as running:
        yield running


def execute(run: FaultyRun, statement: str) -> int:
    with connect(run.cluster.server("primary").direct, "test") as connection:
        result = connection.execute(statement)
        row = result.fetchone() if result.description else None
    return row[0] if row else 0


def test_each_enqueue_notifies_until_it_is_undone(run: FaultyRun) -> None:
    record = run.inject("notify_trigger")
    with connect(run.cluster.server("primary").direct, "listener") as listener:
        channel = record.evidence["trigger"]
        listener.execute(f"LISTEN {channel}")
        assert len(list(listener.notifies(timeout=PATIENCE_S, stop_after=10))) >= 10, "several may arrive at once"
        record = run.end_faults()
        assert record.active_to_end is True
        assert execute(run, _LEFT) == 0
        # They come in the order of the commits: what is between two of the test's own is known, however late they come.
        execute(run, f"NOTIFY {channel}, 'undone'")
        run.wait_until_jobs_complete()
        execute(run, f"NOTIFY {channel}, 'seen'")
        payloads = []
        for notification in listener.notifies(timeout=PATIENCE_S):
            payloads.append(notification.payload)
            if notification.payload == "seen":
                break
        assert payloads[-2:] == ["undone", "seen"]


def test_a_disabled_trigger_is_noticed(run: FaultyRun) -> None:
    record = run.inject("notify_trigger")
    name = record.evidence["trigger"]
    execute(run, f"ALTER TABLE skip_locked_jobs DISABLE TRIGGER {name}")
    record = run.end_faults()
    assert (record.active_to_end, record.why_ended) == (False, f"trigger {name} is disabled")
    assert execute(run, _LEFT) == 0


def test_what_cleans_up_after_a_killed_bench_removes_the_function_from_an_external_server(run: FaultyRun) -> None:
    own = run.cluster.server("primary")
    external = ExternalServerControl(own.name, own.direct, own.control.version)
    with open_adapter("primary", own.direct) as adapter:
        adapter.begin_list()
        run.cluster.servers[0] = replace(own, control=external)
        try:
            run.inject("notify_trigger")
        finally:
            run.cluster.servers[0] = own
        assert execute(run, _LEFT) == 2
        adapter.empty_database()
    assert execute(run, _LEFT) == 0
    run.end_faults()


@pytest.mark.long
def test_without_enqueues_it_cannot_be_verified(run: FaultyRun) -> None:
    run.processes.stop(run.load.running("producer"), PATIENCE_S)
    with pytest.raises(NotCarriedOutError, match="no enqueue sent a notification within 10 s"):
        run.inject("notify_trigger")
    run.injections.undo_all()
    assert execute(run, _LEFT) == 0
