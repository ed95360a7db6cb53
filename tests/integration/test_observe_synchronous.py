"""Commits that wait for a synchronous standby that is gone: to cancel them undoes nothing, and no session is to blame."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.integration.conftest import EmptyOn
from tests.integration.observed_states import record_state
from tests.integration.waiting_sessions import CLAIM, Sessions, assert_offers_none_for, find_about, open_queue_sessions
from tests.waiting import wait_for

pytestmark = pytest.mark.integration


@pytest.fixture
def sessions(empty_on: EmptyOn, monkeypatch: pytest.MonkeyPatch) -> Iterator[Sessions]:
    """A server that waits for a standby which does not exist, and on which a second is long."""
    monkeypatch.setattr("stallbench.observe.postgres.horizon.LONG_TRANSACTION_S", 1.0)
    with open_queue_sessions(empty_on("postgres")) as opened:
        try:
            _set_standby(opened, "gone")
            yield opened
        finally:
            _set_standby(opened, "")


def test_commits_that_wait_for_a_lost_standby_are_not_cancelled(sessions: Sessions) -> None:
    committing = [sessions.open(f"worker {number}") for number in (1, 2)]
    for number, session in enumerate(committing, start=1):
        sessions.send(session, CLAIM.format(number))
        wait_for(lambda pid=session.info.backend_pid: _awaits_standby(sessions, pid), "a commit that waits")  # type: ignore[misc]
    behind = sessions.open_waiting("behind", CLAIM.format(1))
    observation, finding = find_about(
        sessions, "2 sessions are committed here and waiting for a synchronous standby", "blocks 1 session"
    )
    record_state(
        "two commits wait for a synchronous standby that is not connected; a worker waits for the row of one of them",
        "the lost standby blocks all; the two are committed, and a cancellation would undo nothing",
        observation,
    )
    assert observation.findings[0] == finding
    assert "synchronous_standby_names = 'gone'; none is connected" in finding.sentence
    assert "undoes nothing" in finding.caution
    assert_offers_none_for(observation, *committing, behind)
    for statement in filter(None, (each.strip() for each in finding.statement.split(";"))):
        sessions.admin.execute(statement.encode())
    assert [sessions.end_of(one) for one in (*committing, behind)] == ["", "", ""]
    assert sessions.admin.execute("SELECT attempts FROM jobs WHERE id IN (1, 2) ORDER BY id").fetchall() == [(2,), (1,)]


def _set_standby(sessions: Sessions, name: str) -> None:
    sessions.admin.execute("SET synchronous_commit = local")
    sessions.admin.execute(f"ALTER SYSTEM SET synchronous_standby_names = '{name}'".encode())
    sessions.admin.execute("SELECT pg_reload_conf()")
    wait_for(
        lambda: sessions.admin.execute("SELECT current_setting('synchronous_standby_names')").fetchone() == (name,),
        "the setting in force",
    )


def _awaits_standby(sessions: Sessions, pid: int) -> tuple[object, ...] | None:
    return sessions.admin.execute("SELECT pid FROM pg_stat_activity WHERE pid = %s AND wait_event = 'SyncRep'", (pid,)).fetchone()
