"""The bystander: every query that was due is recorded, with its time since then, whatever the server does. SQLite is a server in a file."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from stallbench.records.endpoint import Endpoint
from stallbench.records.events import Event
from stallbench.run.bystander.client import ROWS, TABLE
from tests.running_bystander import RATE, RunningBystander
from tests.waiting import wait_for


@pytest.fixture
def database(tmp_path: Path) -> Iterator[sqlite3.Connection]:
    with closing(sqlite3.connect(tmp_path / "db", isolation_level=None, check_same_thread=False)) as connection:
        connection.execute("PRAGMA journal_mode = WAL")  # so that a write does not wait for the disk
        connection.execute(f"CREATE TABLE {TABLE} (id integer PRIMARY KEY, value integer NOT NULL)")
        connection.executemany(f"INSERT INTO {TABLE} VALUES (?, 0)", ((row,) for row in range(ROWS)))
        yield connection


@pytest.fixture
def bystander(database: sqlite3.Connection, tmp_path: Path) -> Iterator[RunningBystander]:
    running = RunningBystander(tmp_path, Endpoint(engine="sqlite", host="", port=0, database=str(tmp_path / "db"), user=""))
    try:
        yield running
    finally:
        running.stop()


def wait_until_behind(bystander: RunningBystander, by_s: float) -> None:
    def is_behind() -> bool:
        return time.time_ns() - bystander.records(Event.QUERY_ANSWERED)[-1].t_ns > by_s * 1e9

    wait_for(is_behind, "a query that is due and not answered")


def test_a_server_that_stands_still_shows_as_long_times_and_not_as_missing_ones(
    database: sqlite3.Connection, bystander: RunningBystander
) -> None:
    before = len(bystander.wait_for(Event.QUERY_ANSWERED, 10))
    database.execute("BEGIN EXCLUSIVE")
    wait_until_behind(bystander, 0.3)
    database.execute("ROLLBACK")
    bystander.wait_for(Event.QUERY_ANSWERED, before + 100)
    bystander.stop()
    answered = bystander.records(Event.QUERY_ANSWERED)
    assert not bystander.list_missing()
    assert not bystander.records(Event.QUERY_FAILED)
    late = [record for record in answered if record.intended_ns is not None and record.t_ns - record.intended_ns > 0.1e9]
    assert len(late) >= 0.2 * RATE
    assert database.execute(f"SELECT sum(value) FROM {TABLE}").fetchone() == (len(answered) // 2,)


def test_a_query_that_fails_is_counted_and_sent_again(database: sqlite3.Connection, bystander: RunningBystander) -> None:
    bystander.wait_for(Event.QUERY_ANSWERED)
    database.execute(f"ALTER TABLE {TABLE} RENAME TO away")
    failed = bystander.wait_for(Event.QUERY_FAILED, 2)
    assert failed[0].detail.startswith(("SQLITE_ERROR in read: no such table", "SQLITE_ERROR in write: no such table"))
    database.execute(f"ALTER TABLE away RENAME TO {TABLE}")
    bystander.wait_for(Event.QUERY_ANSWERED, len(bystander.records(Event.QUERY_ANSWERED)) + 50)
    bystander.stop()
    assert not bystander.list_missing()


def test_what_is_not_answered_when_the_load_ends_is_recorded(database: sqlite3.Connection, bystander: RunningBystander) -> None:
    bystander.wait_for(Event.QUERY_ANSWERED, 10)
    database.execute("BEGIN EXCLUSIVE")
    wait_until_behind(bystander, 0.2)
    bystander.stop()
    assert len(bystander.records(Event.QUERY_UNANSWERED)) >= 0.15 * RATE
    assert not bystander.list_missing()
