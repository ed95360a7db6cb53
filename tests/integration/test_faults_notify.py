"""Enqueues that notify, on a real server: that they do, that they commit one after the other, and that nothing of it is left."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from stallbench.drivers.postgres import connect
from stallbench.errors import NotCarriedOutError
from tests.integration.faulty_run import FaultyRun, faulty_run

pytestmark = pytest.mark.integration

_LEFT = """
SELECT (SELECT count(*) FROM pg_trigger WHERE tgname LIKE 'stallbench_%') + (SELECT count(*) FROM pg_proc WHERE proname LIKE 'stallbench_%')
"""


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FaultyRun]:
    """One run for all tests of this file; each puts it right again."""
    with faulty_run(tmp_path_factory.mktemp("notify")) as running:
        yield running


def execute(run: FaultyRun, statement: str) -> int:
    with connect(run.cluster.server("primary").direct, "test") as connection:
        result = connection.execute(statement)
        row = result.fetchone() if result.description else None
    return row[0] if row else 0


def test_each_enqueue_notifies_until_it_is_undone(run: FaultyRun) -> None:
    record = run.strike("notify_trigger")
    with connect(run.cluster.server("primary").direct, "listener") as listener:
        listener.execute(f"LISTEN {record['evidence']['trigger']}")
        assert len(list(listener.notifies(timeout=20, stop_after=10))) == 10
        record = run.end_faults()
        assert record["held"] is True
        assert execute(run, _LEFT) == 0
        run.wait_until_jobs_complete()
        list(listener.notifies(timeout=0))
        run.wait_until_jobs_complete()
        assert list(listener.notifies(timeout=0)) == []


def test_a_trigger_that_somebody_disables_is_told(run: FaultyRun) -> None:
    record = run.strike("notify_trigger")
    name = record["evidence"]["trigger"]
    execute(run, f"ALTER TABLE skip_locked_jobs DISABLE TRIGGER {name}")
    record = run.end_faults()
    assert (record["held"], record["why_ended"]) == (False, f"trigger {name} is disabled")
    assert execute(run, _LEFT) == 0


def test_without_enqueues_it_is_not_in_force(run: FaultyRun) -> None:
    run.processes.stop(run.load.running("producer"), 10)
    with pytest.raises(NotCarriedOutError, match="no enqueue has notified within 10 s"):
        run.strike("notify_trigger")
    run.faults.undo_all()
    assert execute(run, _LEFT) == 0
