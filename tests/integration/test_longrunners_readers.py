"""Overlapping readers: each query is short, one is always open, and a cancelled query is repeated."""

from __future__ import annotations

import time
from typing import Any

import pytest

from stallbench.engines.postgres.collectors.horizon import Holder, read_horizon
from stallbench.processes.process import Process
from tests.integration.held_database import HeldDatabase, database_name, held, prompt_feedback
from tests.waiting import PATIENCE_S, wait_for

__all__ = ["database_name", "held", "prompt_feedback"]

pytestmark = pytest.mark.integration

TRIES = 5
"""A machine that stands still for longer than readers begin apart lets them begin at the same time, but not at every try."""


def open_queries(held: HeldDatabase) -> list[Holder]:
    """Return the readers that hold the horizon now, the oldest first."""
    holders = read_horizon(held.primary, {})
    return [holder for holder in holders if holder.application == "stallbench:longrunner:overlapping_readers-1"]


def wait_until_asleep(held: HeldDatabase, holder: dict[str, Any]) -> None:
    """Wait until a reader is in its query: one that is met between two messages of it takes another end."""
    asleep = "SELECT 1 FROM pg_stat_activity WHERE pid = %s AND wait_event = 'PgSleep'"
    wait_for(lambda: held.primary.execute(asleep, (holder["pid"],)).fetchone(), "the query itself")


def collect(process: Process, messages: list[dict[str, object]], key: str) -> list[dict[str, object]]:
    """Take what the process has said since, and return all that it said under ``key``."""
    messages += process.messages()
    return [said for message in messages if isinstance(said := message.get(key), dict)]


def test_one_query_is_always_open_and_none_is_long(held: HeldDatabase) -> None:
    # The first and the last begin 3.5 s apart: a machine that stands still for less than that does not end all queries at once.
    process, _ = held.start(held.document("overlapping_readers", readers=8, each="4s"))
    messages: list[dict[str, object]] = []
    seen: set[str] = set()

    def all_have_ended_a_query() -> bool:
        now_open = open_queries(held)
        assert now_open, "there was a moment without an open query"
        assert now_open[0].age_s is not None and now_open[0].age_s < 10
        seen.update(holder.key for holder in now_open)
        return {said["reader"] for said in collect(process, messages, "ended")} == set(range(1, 9))

    wait_for(all_have_ended_a_query, lambda: f"a query of every reader that has ended among {messages}", every_s=0.02)
    assert len(seen) == 8
    assert collect(process, messages, "cancelled") == []


def begin_in_turn(held: HeldDatabase) -> bool:
    """Start four readers; returns whether they began one after the other, and not all at once."""
    process, _ = held.start(held.document("overlapping_readers", readers=4, each="2s"))
    at_first = len(open_queries(held))
    messages: list[dict[str, object]] = []

    def began() -> list[object]:
        """What the first says may be read with the process's being ready, or later."""
        return [said["reader"] for said in collect(process, messages, "began") if said["reader"] != 1]

    wait_for(lambda: len(set(began())) == 3, "the beginning of all others")
    wait_for(lambda: len(open_queries(held)) == 4, "all four readers")
    process.stop(PATIENCE_S)
    assert process.exit_code == 0, process.tail_log()
    return at_first < 4 and began()[:3] == [2, 3, 4]


def test_the_readers_are_staggered(held: HeldDatabase) -> None:
    assert any(begin_in_turn(held) for _ in range(TRIES))


def test_with_a_limit_one_query_is_open_and_the_others_have_their_turn_later(held: HeldDatabase) -> None:
    process, _ = held.start(held.document("overlapping_readers", readers=2, each="1s", at_once=1))
    messages: list[dict[str, object]] = []

    def both_have_ended_a_query() -> bool:
        assert len(open_queries(held)) <= 1
        return {said["reader"] for said in collect(process, messages, "ended")} == {1, 2}

    wait_for(both_have_ended_a_query, lambda: f"a query of each reader that has ended among {messages}", every_s=0.02)
    assert all(float(str(said["lasted_s"])) >= 1 for said in collect(process, messages, "ended"))


@pytest.mark.parametrize(
    ("end", "why"),
    [
        ("pg_cancel_backend", "57014: canceling statement due to user request"),
        ("pg_terminate_backend", "57P01: terminating connection due to administrator command"),
    ],
)
def test_a_reader_that_the_server_ends_reports_it_and_repeats_its_query(held: HeldDatabase, end: str, why: str) -> None:
    process, holder = held.start(held.document("overlapping_readers", readers=2, each="1h"))
    messages: list[dict[str, object]] = []
    wait_until_asleep(held, holder)
    held.primary.execute(f"SELECT {end}(%s)", (holder["pid"],))
    (cancelled,) = wait_for(lambda: collect(process, messages, "cancelled"), "the cancelled query")
    assert (cancelled["reader"], cancelled["why"]) == (1, why)
    wait_for(lambda: collect(process, messages, "began"), "the query that follows it")
    wait_for(lambda: open_queries(held), "the query that follows it, on the server")
    assert process.poll() is None


def test_queries_survive_a_killed_client_until_they_are_cleaned_up(held: HeldDatabase) -> None:
    document = held.document("overlapping_readers", readers=2, each="1h")
    process, holder = held.start(document)
    wait_until_asleep(held, holder)
    process.kill()
    time.sleep(0.3)
    assert [left.pid for left in open_queries(held)] == [holder["pid"]]
    assert f"session {holder['pid']}" in held.release(document)
    wait_for(lambda: not held.leftovers(), "the end of all that was left")


def test_on_a_replica_they_hold_back_the_primary_through_feedback(held: HeldDatabase) -> None:
    process, holder = held.start(held.document("overlapping_readers", "replica-1", readers=2, each="1h"))
    found = held.wait_until_held(holder)
    assert (found.source, found.via) == ("replica-1", "feedback")
    held.delete_jobs()
    assert held.kept_dead_rows() == 10
    process.stop(PATIENCE_S)  # or its queries would outlive it on the replica, and hold what other tests want to be vacuumed
