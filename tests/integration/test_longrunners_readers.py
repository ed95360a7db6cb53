"""Readers that overlap: each query is short, one is always open, and one that is cancelled comes back."""

from __future__ import annotations

import time

import pytest

from stallbench.collectors.horizon import Holder, read_horizon
from stallbench.process import Process
from tests.integration.held_database import HeldDatabase, database_name, held, prompt_feedback, wait_for

__all__ = ["database_name", "held", "prompt_feedback"]

pytestmark = pytest.mark.integration


def open_queries(held: HeldDatabase) -> list[Holder]:
    """Return the readers that hold the horizon now, the oldest first."""
    holders = read_horizon(held.primary, {})
    return [holder for holder in holders if holder.application == "stallbench:longrunner:overlapping_readers-1"]


def collect(process: Process, messages: list[dict[str, object]], key: str) -> list[dict[str, object]]:
    """Take what the process has said since, and return all that it said under ``key``."""
    messages += process.messages()
    return [said for message in messages if isinstance(said := message.get(key), dict)]


def test_one_query_is_always_open_and_none_is_long(held: HeldDatabase) -> None:
    process, _ = held.start(held.document("overlapping_readers", readers=3, each="600ms"))
    seen: set[str] = set()
    until_s = time.monotonic() + 2
    while time.monotonic() < until_s:
        now_open = open_queries(held)
        assert now_open, "there was a moment without an open query"
        assert now_open[0].age_s is not None and now_open[0].age_s < 1.2
        seen |= {holder.key for holder in now_open}
        time.sleep(0.02)
    assert len(seen) == 3
    messages: list[dict[str, object]] = []
    assert len(collect(process, messages, "ended")) >= 6
    assert collect(process, messages, "cancelled") == []


def test_the_readers_begin_one_after_the_other(held: HeldDatabase) -> None:
    process, _ = held.start(held.document("overlapping_readers", readers=4, each="2s"))
    wait_for(lambda: len(open_queries(held)) == 4, "all four readers")
    process.stop(grace_s=5)
    # What the first says is said before the process is ready, and has been read with that.
    assert [said["reader"] for said in collect(process, [], "began")][:3] == [2, 3, 4]
    assert process.exit_code == 0, process.tail_log()


@pytest.mark.parametrize(
    ("end", "why"),
    [
        ("pg_cancel_backend", "57014: canceling statement due to user request"),
        ("pg_terminate_backend", "57P01: terminating connection due to administrator command"),
    ],
)
def test_a_reader_that_is_ended_by_the_server_says_so_and_comes_back(held: HeldDatabase, end: str, why: str) -> None:
    process, holder = held.start(held.document("overlapping_readers", readers=2, each="30s"))
    messages: list[dict[str, object]] = []
    asleep = "SELECT 1 FROM pg_stat_activity WHERE pid = %s AND wait_event = 'PgSleep'"
    # A cancellation that reaches a session between two messages of its query is dropped.
    wait_for(lambda: held.primary.execute(asleep, (holder["pid"],)).fetchone(), "the query itself")
    held.primary.execute(f"SELECT {end}(%s)", (holder["pid"],))
    (cancelled,) = wait_for(lambda: collect(process, messages, "cancelled"), "the cancelled query")
    assert (cancelled["reader"], cancelled["why"]) == (1, why)
    wait_for(lambda: collect(process, messages, "began"), "the query that follows it")
    wait_for(lambda: open_queries(held), "the query that follows it, on the server")
    assert process.poll() is None


def test_queries_survive_a_killed_client_until_they_are_released(held: HeldDatabase) -> None:
    document = held.document("overlapping_readers", readers=2, each="60s")
    process, holder = held.start(document)
    process.kill()
    time.sleep(0.3)
    assert [left.pid for left in open_queries(held)] == [holder["pid"]]
    assert f"session {holder['pid']}" in held.release(document)
    assert held.leftovers() == []


def test_on_a_replica_they_hold_the_primary_through_its_feedback(held: HeldDatabase) -> None:
    _, holder = held.start(held.document("overlapping_readers", "replica-1", readers=2, each="5s"))
    found = held.wait_until_held(holder)
    assert (found.source, found.via) == ("replica-1", "feedback")
    held.delete_jobs()
    assert held.kept_dead_rows() == 10
