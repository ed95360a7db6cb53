"""A database with very many queue tables: a reading is not late because of them."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from stallbench.observe.diagnostic import ObserverState, Reading, Section
from stallbench.observe.postgres import queues
from stallbench.observe.postgres.job_counts import JobCounts
from stallbench.observe.postgres.queues import NO_TIME, QueuesDiagnostic
from stallbench.observe.postgres.recognition import QueueTable


class CountedTables(QueuesDiagnostic):
    """Tables of three tenants, each with one job."""

    def find_all(self, reading: Reading) -> list[QueueTable]:
        return [
            QueueTable(
                schema=tenant,
                table="jobs",
                plain_schema=tenant,
                plain_name="jobs",
                known=None,
                is_readable=True,
                leaves=(),
                leaf_names=(),
            )
            for tenant in ("a", "b", "c")
        ]

    def count(self, reading: Reading, table: QueueTable) -> JobCounts:
        return JobCounts(ready=1, oldest_s=None)


def read(subject: QueuesDiagnostic, at_s: float) -> Section:
    return subject.read(Reading(server=None, at_s=at_s, state=ObserverState()))


def names(rows: Sequence[Sequence[str]]) -> list[str]:
    return [row[0] for row in rows]


def test_all_queues_are_counted_if_there_is_time() -> None:
    section = read(CountedTables(), 1.0)
    assert names(section.rows) == ["unknown queue (a.jobs)", "unknown queue (b.jobs)", "unknown queue (c.jobs)"]
    assert not section.not_visible


def test_queues_have_their_turn_if_there_is_no_time_for_all_and_the_report_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(queues, "_COUNTING_S", -1.0)
    subject = CountedTables()
    counted = [names(read(subject, at_s).rows) for at_s in (1.0, 2.0, 3.0)]
    assert counted == [["unknown queue (a.jobs)"], ["unknown queue (b.jobs)"], ["unknown queue (c.jobs)"]]
    (not_visible,) = read(subject, 4.0).not_visible
    assert (not_visible.what, not_visible.why) == ("the jobs of 2 queues", NO_TIME)
    assert [title for title, counts in subject.counts.items() if counts.ready is None] == [
        "unknown queue (b.jobs)",
        "unknown queue (c.jobs)",
    ], "an expectation must know that they were not counted"


def test_counts_are_recorded_once_although_later_looks_leave_them_out() -> None:
    subject = CountedTables()
    read(subject, 1.0)
    assert subject.take_new_counts() == subject.counts
    assert subject.take_new_counts() is None
    read(subject, 2.0)
    assert subject.take_new_counts() == subject.counts
