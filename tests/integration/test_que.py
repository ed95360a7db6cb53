"""Que re-checks a job after locking it: its walk sees the jobs of its snapshot, including those that were completed since."""

from __future__ import annotations

from typing import Any

import pytest

from stallbench.engines.postgres.driver import connect
from stallbench.queues import LostRaceError, NewJob
from stallbench.queues.que import Que, QueOptions
from stallbench.records.endpoint import Endpoint
from tests.integration.conftest import EmptyOn

pytestmark = pytest.mark.integration


def open_que(endpoint: Endpoint, *, recheck: bool) -> Que:
    return Que(connect(endpoint, "que"), QueOptions(recheck=recheck))


def claim_in_stale_snapshot(endpoint: Endpoint, *, recheck: bool) -> tuple[int, Que]:
    """Let another worker complete the job after a claiming session took its snapshot."""
    fast, slow = open_que(endpoint, recheck=True), open_que(endpoint, recheck=recheck)
    fast.install()
    (job_id,) = fast.enqueue([NewJob(payload="{}")])
    slow.connection.execute("BEGIN ISOLATION LEVEL REPEATABLE READ")
    slow.connection.execute("SELECT 1 FROM que_jobs")
    fast.complete(fast.claim()[0])
    fast.connection.close()
    return job_id, slow


def test_without_the_recheck_a_completed_job_is_claimed_again(empty_on: EmptyOn) -> None:
    job_id, slow = claim_in_stale_snapshot(empty_on("postgres"), recheck=False)
    with slow.connection:
        assert slow.claim()[0].job_id == job_id


def test_with_the_recheck_the_race_is_noticed(empty_on: EmptyOn, monkeypatch: pytest.MonkeyPatch) -> None:
    job_id, slow = claim_in_stale_snapshot(empty_on("postgres"), recheck=True)
    execute = slow.execute

    def end_the_snapshot_before_the_check(name: str, *parameters: bytes | None) -> Any:
        if name == "check_job":
            slow.connection.execute("COMMIT")
        return execute(name, *parameters)

    monkeypatch.setattr(slow, "execute", end_the_snapshot_before_the_check)
    with slow.connection, pytest.raises(LostRaceError) as lost:
        slow.claim()
    assert lost.value.job_id == job_id
