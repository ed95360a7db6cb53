"""Starved tables, stuck clients and waiting commits are named; what is normal operation is not."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from stallbench.verdicts.attribution import attribute
from tests.unit.made_up_run import make_phases, make_run, make_windows

STUCK = {
    "server": "primary",
    "session": "4711:99",
    "pid": 4711,
    "application": "web",
    "state": "idle",
    "from_s": 20.2,
    "to_s": 60.4,
    "stuck_s": 40.2,
    "longrunner": None,
}
WAIT = {
    "table": "que_jobs",
    "from_s": 21.0,
    "to_s": 58.0,
    "waited_s": 37.0,
    "starved_s": 35.0,
    "workers": 3,
    "busy_with": "VACUUM public.a, VACUUM public.b, VACUUM public.c",
}


def describe(tmp_path: Path, stuck: dict[str, Any] | None = None, wait: dict[str, Any] | None = None) -> str:
    phases = make_phases(
        {("run", "notification_queue_bytes.max"): 2_700_000.0, ("run", "notification_queue_percent.max"): 0.0314}
    )
    run = make_run(
        tmp_path,
        phases=phases,
        stuck_clients=pd.DataFrame([stuck] if stuck else [], columns=list(STUCK)),
        vacuum_waits=pd.DataFrame([wait] if wait else [], columns=list(WAIT)),
    )
    return attribute(run).sentence


def test_a_stuck_session_is_named_with_the_size_of_the_notification_queue(tmp_path: Path) -> None:
    sentence = describe(tmp_path, stuck=STUCK)
    assert "Session 4711 on primary (web, idle) waited in ClientWrite from 20 s to 60 s: its client did not read." in sentence
    assert "The notification queue grew to 2.7 MB, 0.031 % of its limit." in sentence


def test_a_longrunner_that_is_stuck_has_its_name(tmp_path: Path) -> None:
    assert "(stuck_listener-1, idle)" in describe(tmp_path, stuck={**STUCK, "longrunner": "stuck_listener-1"})


def test_a_starved_table_is_named_with_what_the_workers_did(tmp_path: Path) -> None:
    described = (
        "Autovacuum was starved: que_jobs was due for a vacuum from 21 s to 58 s. For 35 s of that time all 3 workers were busy "
        "(VACUUM public.a, VACUUM public.b, VACUUM public.c)."
    )
    assert described in describe(tmp_path, wait=WAIT)


@pytest.mark.parametrize(
    ("stuck", "wait"), [({**STUCK, "stuck_s": 1.5}, None), (None, {**WAIT, "starved_s": 0.0, "workers": None})]
)
def test_normal_operation_is_not_described(tmp_path: Path, stuck: dict[str, Any] | None, wait: dict[str, Any] | None) -> None:
    sentence = describe(tmp_path, stuck=stuck, wait=wait)
    assert "ClientWrite" not in sentence and "starved" not in sentence


@pytest.mark.parametrize(("seconds", "is_described"), [(range(30, 45), True), (range(30, 32), False)])
def test_waiting_commits_are_described_with_the_time_of_an_enqueue(tmp_path: Path, seconds: range, is_described: bool) -> None:
    windows = make_windows(lambda _: 0.0, lambda _: 1.0)
    waiting = windows["t_s"].isin(seconds)
    windows.loc[waiting, ["notify_lock_waits", "enqueue_ms_p95"]] = [6.0, 48.0]
    run = make_run(tmp_path, windows=windows, phases=make_phases({("baseline", "enqueue_ms.p95"): 8.0}))
    described = (
        "From 30 s to 45 s commits with a NOTIFY waited for each other, 6.0 at a time: the server makes such commits one after the other. "
        "An enqueue took 48.0 ms (p95) at that time, and 8.0 ms in baseline."
    )
    assert (described in attribute(run).sentence) == is_described
