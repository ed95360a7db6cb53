"""A migration of the jobs table under load: in one transaction it meets deadlocks, in steps it does not; nothing of it is left."""

from __future__ import annotations

from typing import Any

import pytest

from stallbench.engines.postgres.driver import connect
from tests.integration.faulty_run import FaultyRun

pytestmark = pytest.mark.integration

LEFT = (
    "SELECT attname FROM pg_attribute WHERE attname LIKE 'of_migration%' AND NOT attisdropped UNION ALL "
    "SELECT relname FROM pg_class WHERE relname LIKE 'of_migration%'"
)

BLOCKED = "SELECT pid, query_start FROM pg_stat_activity WHERE %s = ANY (pg_blocking_pids(pid))"


def see_that_nothing_is_left(run: FaultyRun) -> None:
    with connect(run.cluster.server("primary").direct, "test") as connection:
        assert connection.execute(LEFT).fetchall() == []
    run.wait_until_jobs_complete()


def test_in_steps_it_is_done_while_jobs_are_completed(run: FaultyRun) -> None:
    run.wait_until_jobs_complete()
    run.inject("migration", how="steps", lock_timeout="500ms", retry_after="100ms")
    run.wait_until(lambda: run.faults()[-1].verified_gone_ns is not None, "the migration's end")
    evidence = run.faults()[-1].evidence
    assert evidence["done"]
    assert evidence["attempts"] >= 4  # one for each step
    assert evidence["locked_jobs"] == 10_000
    assert evidence["ended_by_deadlock"] == 0
    see_that_nothing_is_left(run)


def test_in_one_transaction_it_gives_up_at_its_lock_timeout_and_tries_again(run: FaultyRun) -> None:
    run.wait_until_jobs_complete()
    primary = run.cluster.server("primary").direct
    with connect(primary, "holder") as holder, connect(primary, "watch") as watch:
        holder.execute("BEGIN")
        holder.execute("DELETE FROM skip_locked_jobs WHERE job_id = -1")  # a lock that an index cannot be made beside
        run.inject("migration", lock_timeout="100ms", retry_after="100ms")
        attempts: set[tuple[Any, ...]] = set()

        def has_tried_twice() -> bool:
            attempts.update(watch.execute(BLOCKED, [holder.info.backend_pid]).fetchall())
            return len(attempts) >= 2

        run.wait_until(has_tried_twice, "a second attempt")
        assert run.faults()[-1].verified_gone_ns is None, "it cannot be over while the lock is held"
        holder.execute("ROLLBACK")
    run.wait_until(lambda: run.faults()[-1].verified_gone_ns is not None, "the migration's end")
    evidence = run.faults()[-1].evidence
    assert evidence["done"]
    assert evidence["attempts"] >= 2
    assert evidence["locked_jobs"] == 0
    see_that_nothing_is_left(run)
