"""What the queues that are to stand a held horizon do besides what every queue must: their walks, batches, marks and plans."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from stallbench.processes.queue_client import open_queue
from stallbench.queues import Claim, ClaimExpiredError, LostRaceError, NewJob, Queue, RefusedError
from tests.integration.conftest import EmptyOn

pytestmark = pytest.mark.integration

Open = Callable[..., Queue[Any]]
JOBS = [NewJob(payload=f'{{"n":{n}}}') for n in range(5)]
PATIENCE_S = 60.0


@pytest.fixture
def open_(empty_on: EmptyOn) -> Iterator[Open]:
    """Opens a queue of a kind with options, each on a connection of its own to one empty database; the first one installs it."""
    endpoint = empty_on("postgres")
    opened: list[Queue[Any]] = []

    def open_another(kind: str, **options: object) -> Queue[Any]:
        opened.append(open_queue(kind, options, endpoint, f"test-{len(opened)}"))
        if len(opened) == 1:
            opened[0].install()
        return opened[-1]

    yield open_another
    for queue in opened:
        queue.connection.close()


def claim_one(queue: Queue[Any]) -> Claim:
    (claim,) = queue.claim()
    return claim


def claim_patiently(queue: Queue[Any]) -> Claim:
    until_s = time.monotonic() + PATIENCE_S
    while not (claims := queue.claim()):
        assert time.monotonic() < until_s, "nothing could be claimed"
        time.sleep(0.05)
    return claims[0]


def end_session(dying: Queue[Any], watcher: Queue[Any]) -> None:
    """Close a worker's connection, and wait until all its locks are gone: the server frees them one by one, and then the session."""
    session = (dying.connection.info.backend_pid,)
    dying.connection.close()
    until_s = time.monotonic() + PATIENCE_S
    while watcher.connection.execute("SELECT FROM pg_stat_activity WHERE pid = %s", session).fetchall():
        assert time.monotonic() < until_s, "its session does not end"
        time.sleep(0.02)


class TestClaimAfterLast:
    """Que with the predicate that the article proposes."""

    def test_a_claim_does_not_look_at_what_comes_before_the_last_job_that_was_seen(self, open_: Open) -> None:
        queue, plain = open_("que", claim_after_last=True, start_over=3600), open_("que")
        ids = queue.enqueue(JOBS)
        assert claim_one(queue).job_id == ids[0]
        queue.connection.execute("SELECT pg_advisory_unlock_all()")
        assert claim_one(queue).job_id == ids[1]
        assert claim_one(plain).job_id == ids[0]

    def test_a_job_that_came_back_behind_it_is_found_when_the_walk_starts_over(self, open_: Open) -> None:
        queue, dying = open_("que", claim_after_last=True, start_over=1), open_("que")
        ids = queue.enqueue(JOBS[:2])
        assert claim_one(dying).job_id == ids[0]
        queue.complete(claim_one(queue))
        dying.connection.close()
        assert claim_patiently(queue).job_id == ids[0]


class TestBatches:
    """Several jobs locked in one walk."""

    def test_one_walk_locks_as_many_as_the_batch_and_no_more(self, open_: Open) -> None:
        queue, other = open_("que", batch=3), open_("que")
        ids = queue.enqueue(JOBS)
        assert claim_one(queue).job_id == ids[0]
        assert dict(other.job_ids()) == {job_id: job_id in ids[:3] for job_id in ids}
        assert claim_one(other).job_id == ids[3]

    def test_a_batch_is_handed_out_in_order_and_then_the_next_is_locked(self, open_: Open) -> None:
        queue = open_("que", batch=2)
        ids = list(queue.enqueue(JOBS))
        claimed = []
        while claims := queue.claim():
            claimed.append(claims[0].job_id)
            queue.complete(claims[0])
        assert claimed == ids
        assert queue.is_drained()

    def test_what_a_dead_worker_had_locked_is_free_again_and_what_it_completed_is_not(self, open_: Open) -> None:
        dying, other, another = open_("que", batch=3), open_("que"), open_("que")
        ids = dying.enqueue(JOBS[:3])
        dying.complete(claim_one(dying))
        assert claim_one(dying).job_id == ids[1]
        end_session(dying, another)
        assert claim_one(other).job_id == ids[1]
        assert claim_one(another).job_id == ids[2]

    def test_a_job_of_the_batch_that_is_gone_is_noticed(self, open_: Open) -> None:
        queue = open_("que", batch=2)
        ids = queue.enqueue(JOBS[:2])
        queue.complete(claim_one(queue))
        queue.connection.execute("DELETE FROM que_jobs")
        with pytest.raises(LostRaceError) as lost:
            queue.claim()
        assert lost.value.job_id == ids[1]


class TestStatusColumn:
    """The status, its indexes, and claims that expire."""

    def test_a_completed_job_is_kept_as_done(self, open_: Open) -> None:
        queue = open_("status_column")
        queue.enqueue(JOBS[:1])
        queue.complete(claim_one(queue))
        assert queue.connection.execute("SELECT status FROM status_column_jobs").fetchall() == [("done",)]

    def test_or_deleted(self, open_: Open) -> None:
        queue = open_("status_column", finish="delete")
        queue.enqueue(JOBS[:1])
        queue.complete(claim_one(queue))
        assert queue.connection.execute("SELECT status FROM status_column_jobs").fetchall() == []

    @pytest.mark.parametrize("finish", ["mark", "delete"])
    def test_who_completes_after_the_claim_has_expired_is_told(self, open_: Open, finish: str) -> None:
        slow = open_("status_column", finish=finish, expire_after=1)
        other = open_("status_column", finish=finish, expire_after=1)
        slow.enqueue(JOBS[:1])
        first = claim_one(slow)
        again = claim_patiently(other)
        with pytest.raises(ClaimExpiredError):
            slow.complete(first)
        other.complete(again)
        assert other.is_drained()

    def test_without_an_index_on_it_updates_of_the_status_are_hot(self, open_: Open) -> None:
        assert self.find_hot_share(open_("status_column", index="none", fillfactor=50, finish="mark")) == 1

    def test_with_the_partial_index_none_is(self, open_: Open) -> None:
        assert self.find_hot_share(open_("status_column", fillfactor=50)) == 0

    def find_hot_share(self, queue: Queue[Any]) -> float:
        queue.enqueue(JOBS)
        for _ in JOBS:
            queue.complete(claim_one(queue))
        connection = queue.connection
        connection.execute("SELECT pg_stat_force_next_flush()")
        updated, hot = connection.execute(
            "SELECT n_tup_upd, n_tup_hot_upd FROM pg_stat_user_tables WHERE relname = 'status_column_jobs'"
        ).fetchone()
        assert updated == 2 * len(JOBS)
        return float(hot / updated)


class TestRotatingTables:
    """Tables that take turns and are emptied whatever the horizon."""

    def turn(self, queue: Queue[Any]) -> tuple[int, int]:
        return queue.connection.execute("SELECT head, tail FROM rotating_turn").fetchone()  # type: ignore[no-any-return]

    def rotate(self, queue: Queue[Any]) -> tuple[int, int]:
        """Claim from an empty queue until another table is worked first; returns whose turn it then is."""
        before, until_s = self.turn(queue)[0], time.monotonic() + PATIENCE_S
        while self.turn(queue)[0] == before:
            assert time.monotonic() < until_s, "it does not rotate"
            assert not queue.claim()
            time.sleep(0.05)
        return self.turn(queue)

    def sizes(self, queue: Queue[Any]) -> list[int]:
        names = type(queue).tables
        return [queue.connection.execute("SELECT pg_relation_size(%s::regclass)", (name,)).fetchone()[0] for name in names]

    def test_a_table_is_emptied_although_the_horizon_is_held(self, open_: Open) -> None:
        queue, holder = open_("rotating_tables", rotate_after=1), open_("rotating_tables")
        holder.connection.execute("BEGIN ISOLATION LEVEL REPEATABLE READ")
        holder.connection.execute("SELECT count(*) FROM pg_class")
        queue.enqueue(JOBS)
        for _ in JOBS:
            queue.complete(claim_one(queue))
        assert self.sizes(queue)[0] > 0
        assert self.rotate(queue)[0] == 1
        assert self.sizes(queue)[0] == 0

    def test_a_table_with_a_claimed_job_is_not_emptied(self, open_: Open) -> None:
        queue, other = open_("rotating_tables", rotate_after=1), open_("rotating_tables", rotate_after=1)
        queue.enqueue(JOBS[:1])
        claim = claim_one(queue)
        until_s = time.monotonic() + PATIENCE_S
        while self.turn(other) != (0, 1):
            assert time.monotonic() < until_s, "it does not rotate"
            assert not other.claim()
            time.sleep(0.05)
        for _ in range(20):
            assert not other.claim()
        assert self.turn(other)[0] == 0
        queue.complete(claim)
        assert self.rotate(other)[0] == 1
        assert other.is_drained()

    def test_jobs_are_worked_in_order_across_tables(self, open_: Open) -> None:
        queue = open_("rotating_tables", rotate_after=1)
        ids: list[int] = []
        claimed: list[Claim] = []
        until_s = time.monotonic() + PATIENCE_S
        while self.turn(queue)[1] == 0:
            assert time.monotonic() < until_s, "it does not rotate"
            ids += queue.enqueue(JOBS[:2])
            claimed.append(claim_one(queue))
            queue.complete(claimed[-1])
            time.sleep(0.05)
        ids += queue.enqueue(JOBS)
        while claims := queue.claim():
            claimed.append(claims[0])
            queue.complete(claims[0])
        assert [claim.job_id for claim in claimed] == ids


class TestInsertOnlyLog:
    """Ranges, the cursor in each, and partitions that are dropped."""

    def test_a_range_is_one_consumers_and_goes_on_from_its_cursor_when_that_one_is_gone(self, open_: Open) -> None:
        dying, other = open_("insert_only_log", range=3), open_("insert_only_log", range=3)
        ids = list(dying.enqueue(JOBS))
        dying.complete(claim_one(dying))
        assert claim_one(dying).job_id == ids[1]
        assert dict(other.job_ids()) == {job_id: job_id in ids[:3] for job_id in ids[1:]}
        assert claim_one(other).job_id == ids[3]
        assert other.depth() == 0
        dying.connection.close()
        third = open_("insert_only_log")
        again = claim_patiently(third)
        third.complete(again)
        assert [again.job_id, claim_one(third).job_id, claim_one(other).job_id] == [ids[1], ids[2], ids[4]]

    def test_no_row_ever_dies(self, open_: Open) -> None:
        queue = open_("insert_only_log", range=2)
        ids = list(queue.enqueue(JOBS))
        queue.fail(claim_one(queue), "no luck")
        worked = []
        while claims := queue.claim():
            worked.append(claims[0].job_id)
            queue.complete(claims[0])
        assert worked == [*ids[1:], ids[0]]
        assert queue.is_drained()
        queue.connection.execute("SELECT pg_stat_force_next_flush()")
        assert queue.connection.execute(
            "SELECT sum(n_tup_ins)::int, sum(n_tup_upd + n_tup_del)::int FROM pg_stat_user_tables WHERE relname LIKE 'log\\_%'"
        ).fetchone() == (6 + 3 + 6, 0)  # entries, ranges, positions

    def test_what_has_been_worked_off_is_dropped_although_the_horizon_is_held_and_nothing_else_is(self, open_: Open) -> None:
        queue, holder = open_("insert_only_log", partition=100, ahead=1, range=10), open_("insert_only_log")
        holder.connection.execute("BEGIN ISOLATION LEVEL REPEATABLE READ")
        holder.connection.execute("SELECT count(*) FROM pg_class")
        for _ in range(3):
            queue.enqueue(JOBS * 20)
            queue.schedule()
        assert self.partitions(queue) == [0, 100, 200, 300, 400]
        for _ in range(195):
            queue.complete(claim_one(queue))
        queue.schedule()
        assert self.partitions(queue)[0] == 100
        for _ in range(105):
            queue.complete(claim_one(queue))
        queue.schedule()
        assert self.partitions(queue)[0] == 300
        assert queue.is_drained()
        assert queue.enqueue(JOBS[:1]) == [claim_one(queue).job_id]

    def test_a_table_that_somebody_reads_is_left_alone_for_now(self, open_: Open) -> None:
        queue, reader = open_("insert_only_log", partition=100), open_("insert_only_log")
        for _ in range(20):
            queue.enqueue(JOBS)
        while claims := queue.claim():
            queue.complete(claims[0])
        queue.enqueue(JOBS)
        reader.connection.execute("BEGIN")
        reader.connection.execute("SELECT count(*) FROM log_entries")
        queue.schedule()
        assert self.partitions(queue)[0] == 0
        reader.connection.execute("COMMIT")
        queue.schedule()
        assert self.partitions(queue)[0] == 100

    def test_without_a_partition_jobs_are_refused(self, open_: Open) -> None:
        queue = open_("insert_only_log", partition=100, ahead=1)
        queue.enqueue(JOBS * 20)
        for _ in range(8):  # psycopg prepares by itself what it is given more than five times
            with pytest.raises(RefusedError, match="no partition"):
                queue.enqueue(JOBS * 20)
        queue.schedule()
        assert len(queue.enqueue(JOBS)) == len(JOBS)
        assert len(queue.load(JOBS * 100)) == 500  # a backlog makes its own: no scheduler has begun by then

    def partitions(self, queue: Queue[Any]) -> list[int]:
        result = queue.execute("partitions")  # type: ignore[attr-defined]
        return [int(result.get_value(row, 0)) for row in range(result.ntuples)]
