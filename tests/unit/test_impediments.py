"""The sentences on who starved and who was stuck name them, and are silent on daily work."""

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


def test_a_session_that_is_stuck_is_named_with_what_it_keeps(tmp_path: Path) -> None:
    sentence = describe(tmp_path, stuck=STUCK)
    assert "Session 4711 on primary (web, idle) was stuck in ClientWrite from 20 s to 60 s: its client does not read." in sentence
    assert "The notification queue grew to 2.7 MB, 0.031 % of what it takes." in sentence


def test_a_longrunner_that_is_stuck_has_its_name(tmp_path: Path) -> None:
    assert "(stuck_listener-1, idle)" in describe(tmp_path, stuck={**STUCK, "longrunner": "stuck_listener-1"})


def test_a_table_that_starved_is_named_with_the_workers_and_what_they_did(tmp_path: Path) -> None:
    told = (
        "Autovacuum was starved: que_jobs was due from 21 s to 58 s and nobody came, for 35 s of it because all 3 workers were busy "
        "(VACUUM public.a, VACUUM public.b, VACUUM public.c)."
    )
    assert told in describe(tmp_path, wait=WAIT)


@pytest.mark.parametrize(
    ("stuck", "wait"), [({**STUCK, "stuck_s": 1.5}, None), (None, {**WAIT, "starved_s": 0.0, "workers": None})]
)
def test_what_is_daily_work_is_not_told(tmp_path: Path, stuck: dict[str, Any] | None, wait: dict[str, Any] | None) -> None:
    sentence = describe(tmp_path, stuck=stuck, wait=wait)
    assert "ClientWrite" not in sentence and "starved" not in sentence


@pytest.mark.parametrize(("seconds", "is_told"), [(range(30, 45), True), (range(30, 32), False)])
def test_commits_in_line_are_told_with_what_an_enqueue_took(tmp_path: Path, seconds: range, is_told: bool) -> None:
    windows = make_windows(lambda _: 0.0, lambda _: 1.0)
    in_line = windows["t_s"].isin(seconds)
    windows.loc[in_line, ["notify_lock_waits", "enqueue_ms_p95"]] = [6.0, 48.0]
    run = make_run(tmp_path, windows=windows, phases=make_phases({("baseline", "enqueue_ms.p95"): 8.0}))
    told = (
        "From 30 s to 45 s commits that notify (NOTIFY) waited for each other, 6.0 at a time: a server makes one of these after the other. "
        "An enqueue took 48.0 ms then (p95), and 8.0 ms in baseline."
    )
    assert (told in attribute(run).sentence) == is_told
