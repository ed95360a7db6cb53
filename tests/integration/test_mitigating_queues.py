"""What the queues that are to withstand a held horizon do besides what every queue must: walks, batches, status and plans."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from stallbench.queues import Claim, ClaimExpiredError, LostRaceError, Queue
from tests.integration.mitigating_queue import (
    JOBS,
    PATIENCE_S,
    Open,
    claim_one,
    claim_patiently,
    end_session,
    open_,
)
from tests.integration.statistics import publish_statistics
from tests.waiting import wait_for

pytestmark = pytest.mark.integration

__all__ = ["open_"]  # the fixture


class TestClaimAfterLast:
    """Que with the predicate that the article proposes."""

    def test_a_claim_does_not_read_what_precedes_the_last_job_that_was_seen(self, open_: Open) -> None:
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
    def test_a_completion_after_the_claim_has_expired_is_reported_to_the_worker(self, open_: Open, finish: str) -> None:
        slow = open_("status_column", finish=finish, expire_after=1)
        other = open_("status_column", finish=finish, expire_after=1)
        slow.enqueue(JOBS[:1])
        first = claim_one(slow)
        again = claim_patiently(other)
        with pytest.raises(ClaimExpiredError):
            slow.complete(first)
        other.complete(again)
        assert other.is_drained()

    def test_the_table_may_contain_completed_jobs_of_earlier_days_which_nobody_claims(self, open_: Open) -> None:
        queue = open_("status_column", retained=30)
        assert queue.connection.execute("SELECT status, count(*) FROM status_column_jobs GROUP BY 1").fetchall() == [("done", 30)]
        assert not queue.claim()
        assert queue.is_drained()

    def test_the_server_counts_the_completed_jobs_of_earlier_days_once(self, open_: Open) -> None:
        """VACUUM counts the rows that are there; what the session has not yet reported of its INSERT was added to that."""
        retained = 3000
        queue, other = open_("status_column", retained=retained), open_("status_column", retained=retained)
        end_session(queue, other)  # it reports the rest at its end
        count = "SELECT pg_stat_get_live_tuples('status_column_jobs'::regclass)"
        assert other.connection.execute(count).fetchall() == [(retained,)]

    @pytest.mark.parametrize(
        ("kind", "definition"),
        [
            ("gin", "USING gin (((payload)::jsonb))"),
            ("gin_without_fastupdate", "USING gin (((payload)::jsonb)) WITH (fastupdate=off)"),
            ("btree", "USING btree (((payload ->> 'n'::text)))"),
        ],
    )
    def test_the_arguments_may_have_an_index(self, open_: Open, kind: str, definition: str) -> None:
        queue = open_("status_column", payload_index=kind)
        ((found,),) = queue.connection.execute(
            "SELECT indexdef FROM pg_indexes WHERE indexname = 'status_column_jobs_payload'"
        ).fetchall()
        assert definition in found

    def test_without_an_index_on_it_updates_of_the_status_are_hot(self, open_: Open) -> None:
        assert self.find_hot_share(open_("status_column", index="none", fillfactor=50, finish="mark")) == 1

    def test_with_the_partial_index_none_is(self, open_: Open) -> None:
        assert self.find_hot_share(open_("status_column", fillfactor=50)) == 0

    def find_hot_share(self, queue: Queue[Any]) -> float:
        queue.enqueue(JOBS)
        for _ in JOBS:
            queue.complete(claim_one(queue))
        connection = queue.connection
        publish_statistics(connection)
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
        before = self.turn(queue)[0]
        return self.claim_nothing_until(queue, lambda turn: turn[0] != before)

    def claim_nothing_until(self, queue: Queue[Any], is_it: Callable[[tuple[int, int]], bool]) -> tuple[int, int]:
        """Claim from a queue without a free job until the turn is as wanted; returns whose turn it then is."""

        def claim_nothing() -> tuple[int, int] | None:
            if is_it(turn := self.turn(queue)):
                return turn
            assert not queue.claim()
            return None

        return wait_for(claim_nothing, lambda: f"turn {self.turn(queue)}; the next one", PATIENCE_S)

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
        self.claim_nothing_until(other, lambda turn: turn == (0, 1))
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

        def work_until_it_rotates() -> bool:
            if self.turn(queue)[1] != 0:
                return True
            ids.extend(queue.enqueue(JOBS[:2]))
            claimed.append(claim_one(queue))
            queue.complete(claimed[-1])
            return False

        wait_for(work_until_it_rotates, "a rotation", PATIENCE_S)
        ids += queue.enqueue(JOBS)
        while claims := queue.claim():
            claimed.append(claims[0])
            queue.complete(claims[0])
        assert [claim.job_id for claim in claimed] == ids
