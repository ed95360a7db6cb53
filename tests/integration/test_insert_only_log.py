"""The insert-only log: ranges, cursors and dropped partitions."""

from __future__ import annotations

from typing import Any

import pytest

from stallbench.queues import Queue, RefusedError
from tests.integration.mitigating_queue import (
    JOBS,
    Open,
    claim_one,
    claim_patiently,
    open_,
)
from tests.integration.statistics import publish_statistics

pytestmark = pytest.mark.integration

__all__ = ["open_"]  # the fixture


class TestInsertOnlyLog:
    """Ranges, the cursor in each, and partitions that are dropped."""

    def test_a_range_belongs_to_one_consumer_and_continues_from_its_cursor_when_that_consumer_is_gone(self, open_: Open) -> None:
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
        publish_statistics(queue.connection)
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

    def test_a_table_that_a_session_reads_is_not_dropped_yet(self, open_: Open) -> None:
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
