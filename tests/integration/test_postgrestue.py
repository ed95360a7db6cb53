"""Postgrestue: what its jobs wait for, who may take them from whom, and every way of sending its statements."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

import psycopg
import pytest

from stallbench.engines import driver_of
from stallbench.queues import Claim, ClaimExpiredError, NewJob
from stallbench.queues.postgrestue import Postgrestue
from stallbench.queues.queue_client import open_queue
from tests.integration.conftest import EmptyOn
from tests.integration.statistics import publish_statistics

pytestmark = pytest.mark.integration

Open = Callable[..., Postgrestue]
JOBS = [NewJob(payload=f'{{"n": {n}, "text": "a \\"quoted\\" \\\\ one"}}') for n in range(6)]
SENDING = [
    pytest.param(
        {"client": client, "pipeline": pipeline, "claim": claim}, id=f"{client}-{'pipelined' if pipeline else 'plain'}-{claim}"
    )
    for client in ("libpq", "cursor")
    for pipeline in (False, True)
    for claim in ("skip_locked", "serializable")
]


@pytest.fixture
def open_one(empty_on: EmptyOn) -> Iterator[Open]:
    """Opens the queue on a new connection at each call; the first call installs it."""
    endpoint = empty_on("postgres")
    opened: list[Postgrestue] = []

    def open_another(**options: object) -> Postgrestue:
        queue = open_queue("postgrestue", options, endpoint, f"test-{len(opened)}")
        assert isinstance(queue, Postgrestue)
        if not opened:
            queue.install()
        opened.append(queue)
        return queue

    yield open_another
    for queue in opened:
        driver_of("postgres").close(queue.connection)


def claim_one(queue: Postgrestue) -> Claim:
    (claim,) = queue.claim()
    return claim


def work_all(queue: Postgrestue) -> list[int]:
    """Claim and complete until there is nothing to claim."""
    worked = []
    while claims := queue.claim():
        worked.append(claims[0].job_id)
        queue.complete(claims[0])
    return worked


def ask(queue: Postgrestue, sql: str) -> list[tuple[Any, ...]]:
    return queue.connection.execute(sql.encode()).fetchall()


@pytest.mark.parametrize("options", SENDING)
class TestEveryWayOfSending:
    """What a move does, however it is sent."""

    def test_jobs_go_through(self, open_one: Open, options: dict[str, object]) -> None:
        queue = open_one(**options)
        ids = list(queue.enqueue(JOBS))
        assert queue.depth() == len(JOBS)
        claim = claim_one(queue)
        assert (claim.job_id, claim.attempt, claim.payload) == (ids[0], 1, JOBS[0].payload)
        queue.complete(claim)
        assert sorted([claim.job_id, *work_all(queue)]) == ids
        assert queue.is_drained()
        assert {row[0] for row in ask(queue, "SELECT outcome::text FROM finished_job")} == {"succeeded"}

    def test_an_attempt_that_was_taken_away_is_no_completion(self, open_one: Open, options: dict[str, object]) -> None:
        queue = open_one(**options)
        queue.enqueue(JOBS[:1])
        claim = claim_one(queue)
        queue.connection.execute("DELETE FROM running_job")
        with pytest.raises(ClaimExpiredError):
            queue.complete(claim)
        assert ask(queue, "SELECT * FROM finished_job") == []
        assert list(queue.claim()) == []

    def test_an_error_leaves_the_connection_to_be_used_again(self, open_one: Open, options: dict[str, object]) -> None:
        queue = open_one(**options)
        with pytest.raises(psycopg.errors.InvalidTextRepresentation) as refused:
            queue.enqueue([NewJob(payload="{")])
        assert queue.recover(refused.value)
        queue.enqueue(JOBS[:1])
        assert len(work_all(queue)) == 1

    def test_a_lost_connection_is_an_error_of_the_driver(self, open_one: Open, options: dict[str, object]) -> None:
        queue, other = open_one(**options), open_one()
        queue.enqueue(JOBS)
        claim = claim_one(queue)
        other.connection.execute("SELECT pg_terminate_backend(%s)", (queue.connection.info.backend_pid,))
        with pytest.raises(psycopg.OperationalError) as lost:
            queue.complete(claim)
        assert not queue.recover(lost.value) or queue.connection.closed


class TestSerializable:
    """Two claims of one job: the server lets one of them begin again."""

    def test_a_conflict_is_recorded_and_retried(self, open_one: Open, monkeypatch: pytest.MonkeyPatch) -> None:
        first, second = open_one(claim="serializable"), open_one(claim="serializable")
        ids = set(first.enqueue(JOBS[:2]))
        told: list[Exception] = []
        first.on_retry = told.append
        send = first._send
        others: list[int] = []

        def let_another_be_faster(*calls: Any) -> Any:
            results = send(*calls)
            if calls[-1][0] == "find_unlocked" and not others:
                others.append(claim_one(second).job_id)
            return results

        monkeypatch.setattr(first, "_send", let_another_be_faster)
        assert {claim_one(first).job_id, *others} == ids
        assert [type(error) for error in told] == [psycopg.errors.SerializationFailure]


class TestWhatJobsWaitFor:
    """A time, another job, or their turn."""

    def test_a_scheduled_job_waits_for_its_time_and_for_the_scheduler(self, open_one: Open) -> None:
        queue = open_one(scheduled_share=1.0, schedule=3600)
        (job_id,) = queue.enqueue(JOBS[:1])
        assert queue.schedule() == 1.0
        assert list(queue.claim()) == []
        assert dict(queue.job_ids()) == {job_id: False}
        queue.connection.execute("UPDATE scheduled_job SET schedule_time = now()")
        assert queue.depth() == 1, "it is due"
        assert list(queue.claim()) == [], "no scheduler has moved it"
        queue.schedule()
        assert claim_one(queue).job_id == job_id

    def test_a_blocked_job_is_run_when_the_other_has_succeeded(self, open_one: Open) -> None:
        queue = open_one(blocked_share=1.0)
        ids = list(queue.enqueue(JOBS))
        assert queue.depth() == 1
        queue.fail(claim_one(queue), "no luck")
        assert queue.depth() == 1, "only the failed one, again"
        assert work_all(queue) == ids

    def test_a_job_whose_blocker_has_succeeded_before_it_came_is_not_blocked(self, open_one: Open) -> None:
        queue = open_one(blocked_share=1.0)
        queue.enqueue(JOBS[:1])
        work_all(queue)
        ids = list(queue.enqueue(JOBS[1:2]))
        assert work_all(queue) == ids

    def test_one_job_of_a_fifo_queue_runs_at_a_time_and_in_its_turn(self, open_one: Open) -> None:
        queue, other = open_one(fifo_share=1.0, fifo_queues=1), open_one()
        ids = list(queue.enqueue(JOBS[:2])) + list(queue.enqueue(JOBS[2:]))
        claim = claim_one(queue)
        assert list(other.claim()) == []
        queue.complete(claim)
        assert [claim.job_id, *work_all(other)] == ids

    def test_a_backlog_waits_for_the_same_and_reports_it(self, open_one: Open) -> None:
        queue = open_one(fifo_share=0.4, fifo_queues=1, scheduled_share=0.3, schedule=3600, blocked_share=0.3)
        ids = set(queue.load([NewJob(payload=str(n)) for n in range(200)]))
        of_kind: dict[str, set[int]] = {"fifo": set(), "due": set(), "after": set()}
        for job_id, precondition in queue.preconditions.items():
            of_kind[precondition.kind].add(job_id)
        rows = ask(queue, "SELECT id, num_nonnulls(queue), num_nonnulls(schedule_time), num_nonnulls(blocking_job_id) FROM job")
        assert {row[0] for row in rows} == ids
        for column, kind in enumerate(of_kind, start=1):
            assert of_kind[kind] == {row[0] for row in rows if row[column]} != set()
        assert queue.depth() == len(ids) - sum(map(len, of_kind.values())) + 1, "and the first of the FIFO queue"
        assert dict(ask(queue, "SELECT 'due', count(*) FROM scheduled_job")) == {"due": len(of_kind["due"])}

    def test_fifo_queues_do_not_wait_for_each_other(self, open_one: Open) -> None:
        queue = open_one(fifo_share=1.0, fifo_queues=50)
        queue.enqueue(JOBS)
        names = {name for (name,) in ask(queue, "SELECT queue FROM job")}
        assert queue.depth() == len(names) > 1

    def test_a_failed_job_keeps_its_turn_until_it_is_given_up(self, open_one: Open) -> None:
        queue = open_one(fifo_share=1.0, fifo_queues=1, max_attempts=2)
        first, second = queue.enqueue(JOBS[:2])
        queue.fail(claim_one(queue), "no luck")
        again = claim_one(queue)
        assert (again.job_id, again.attempt) == (first, 2)
        queue.fail(again, "no luck")
        assert claim_one(queue).job_id == second
        assert ask(queue, "SELECT job_id, attempt, result FROM finished_job ORDER BY attempt") == [
            (first, 1, "no luck"),
            (first, 2, "no luck"),
        ]

    def test_a_job_that_was_put_behind_one_that_had_just_finished_is_started_by_the_scheduler(self, open_one: Open) -> None:
        queue = open_one(fifo_share=1.0, fifo_queues=1)
        queue.enqueue(JOBS[:1])
        claim, slow = claim_one(queue), open_one(fifo_share=1.0, fifo_queues=1)
        with slow.connection.transaction():
            slow.connection.execute(
                "INSERT INTO job (id, owner_id, kind, max_attempts, timeout, arguments) VALUES (-1, '', '', 1, '1 s', '{}')"
            )
            slow.connection.execute("INSERT INTO queued_job (queue, job_id) VALUES ('fifo-0', -1)")
            queue.complete(claim)
        assert list(queue.claim()) == []
        queue.schedule()
        assert claim_one(queue).job_id == -1


class TestDeadWorkers:
    """Whose jobs are taken away, and when."""

    def test_no_worker_takes_the_jobs_of_a_dead_worker_as_in_the_prototype(self, open_one: Open) -> None:
        dying, other = open_one(), open_one()
        (job_id,) = dying.enqueue(JOBS[:1])
        claim_one(dying)
        dying.connection.close()
        other.schedule()
        assert dict(other.job_ids()) == {job_id: True}

    @pytest.mark.parametrize(
        "options",
        [{"rescue": "pings", "silent_after": 60}, {"rescue": "time_limit", "time_limit": 60}],
        ids=["pings", "time_limit"],
    )
    def test_the_scheduler_gives_them_to_another(self, open_one: Open, options: dict[str, object]) -> None:
        dying, other = open_one(**options), open_one(**options)
        (job_id,) = dying.enqueue(JOBS[:1])
        lost = claim_one(dying)
        other.schedule()
        assert list(other.claim()) == [], "not yet"
        other.connection.execute(
            "UPDATE worker SET last_ping_time = last_ping_time - interval '61 s' WHERE name = 'stallbench:test-0'"
        )
        other.connection.execute("UPDATE running_job SET start_time = start_time - interval '61 s'")
        other.schedule()
        again = claim_one(other)
        assert (again.job_id, again.attempt) == (job_id, 2)
        with pytest.raises(ClaimExpiredError):
            dying.complete(lost)
        other.complete(again)
        assert ask(other, "SELECT attempt, outcome::text FROM finished_job ORDER BY attempt") == [(1, "failed"), (2, "succeeded")]

    def test_a_worker_is_known_from_its_first_claim_to_its_end(self, open_one: Open) -> None:
        queue = open_one(ping_every=0.05)
        assert ask(queue, "SELECT * FROM worker") == []
        queue.claim()
        ((name, first),) = ask(queue, "SELECT name, last_ping_time FROM worker")
        assert name == "stallbench:test-0"
        time.sleep(0.06)
        queue.claim()
        assert ask(queue, "SELECT last_ping_time > register_time FROM worker") == [(True,)], first
        queue.deregister()
        assert ask(queue, "SELECT * FROM worker") == []


class TestTables:
    """Updates are heap-only, and what has finished is found by outcome and day."""

    @pytest.mark.parametrize(("state_index", "are_hot"), [(False, True), (True, False)])
    def test_a_claim_is_a_heap_only_update_unless_the_state_is_indexed(
        self, open_one: Open, state_index: bool, are_hot: bool
    ) -> None:
        queue = open_one(state_index=state_index)
        queue.enqueue(JOBS)
        for _ in JOBS:
            claim_one(queue)
        publish_statistics(queue.connection)
        ((updates, hot),) = ask(queue, "SELECT n_tup_upd, n_tup_hot_upd FROM pg_stat_user_tables WHERE relname = 'running_job'")
        assert (updates, hot) == (len(JOBS), len(JOBS) if are_hot else 0)

    @pytest.mark.parametrize("claim", ["skip_locked", "serializable"])
    def test_a_claim_begins_with_the_small_table_whatever_is_in_the_large_one(self, open_one: Open, claim: str) -> None:
        queue = open_one(claim=claim)
        queue.load([NewJob(payload=f'{{"told": "{"at length " * 25}"}}')] * 10_000)
        driver_of("postgres").vacuum_and_analyze(queue.connection, queue.tables)
        plan = queue.explain()
        assert "Seq Scan on running_job" in plan
        assert "Seq Scan on job" not in plan

    def test_todays_successes_are_a_table_of_their_own(self, open_one: Open) -> None:
        queue = open_one()
        queue.enqueue(JOBS)
        work_all(queue)
        ((table,),) = ask(queue, "SELECT DISTINCT tableoid::regclass::text FROM finished_job")
        assert table == time.strftime("finished_job_succeeded_%Y%m%d", time.gmtime()) or table[-8:].isdigit()
