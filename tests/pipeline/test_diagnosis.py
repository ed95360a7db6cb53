"""Clients that did not read and tables that waited for a vacuum, from the samples."""

from __future__ import annotations

from typing import Any

import pytest

from tests.pipeline.conftest import MakeTables, Tables
from tests.synthetic_run import SyntheticRun


@pytest.fixture(scope="module")
def tables(make: MakeTables, tmp_path_factory: pytest.TempPathFactory) -> Tables:
    """A listener that is stuck from 3 to 8.5 s; a table that is due from 2 to 7.5 s, of which both workers are busy from 4.5 s on."""
    run = SyntheticRun(tmp_path_factory.mktemp("diagnosis") / "run", phases={"baseline": 2, "starved": 10})
    run.longrunner("stuck_listener-1", phase="starved", from_s=3, to_s=9)
    for second in range(12):
        at_s = second + 0.5
        if 4 <= second <= 8:
            known: dict[str, Any] = {"pid": 4711, "application": "stallbench:longrunner:stuck_listener-1", "state": "idle"}
            run.sample("notifications", "client_write:4711:99", at_s=at_s, **known, stuck_s=at_s - 3)
        is_due = 2 <= second <= 7 or second == 10
        overdue_s = (0.0 if second in (2, 10) else at_s - 2.5) if is_due else 0.0
        run.sample("autovacuum", "table:que_jobs", at_s=at_s, vacuum_overdue_s=overdue_s)
        doing = ["VACUUM public.large_1", "VACUUM public.large_2"][: 2 if 4 <= second <= 7 else 1]
        run.sample("autovacuum", "server", at_s=at_s, autovacuum_workers_busy=len(doing), autovacuum_workers_free=2 - len(doing))
        for pid, what in enumerate(doing):
            run.sample("autovacuum", f"autovacuum:{pid}", at_s=at_s, doing=what, busy_s=1.0)
    return make(run.write(final_snapshot={}))


def test_a_stuck_client_is_one_row_with_who_it_was(tables: Tables) -> None:
    (stuck,) = tables("stuck_clients").to_dict("records")
    assert (stuck["server"], stuck["session"], stuck["pid"], stuck["state"]) == ("primary", "4711:99", 4711, "idle")
    assert (stuck["from_s"], stuck["to_s"], stuck["stuck_s"]) == (3.0, 8.5, 5.5)
    assert stuck["longrunner"] == "stuck_listener-1"


def test_a_wait_is_starved_only_while_every_worker_was_busy(tables: Tables) -> None:
    (wait,) = tables("vacuum_waits").to_dict("records")
    assert (wait["table"], wait["from_s"], wait["to_s"], wait["waited_s"]) == ("que_jobs", 2.5, 7.5, 5.0)
    assert (wait["starved_s"], wait["workers"]) == (4.0, 2)
    assert wait["busy_with"] == "VACUUM public.large_1, VACUUM public.large_2"


def test_the_measures_are_in_the_windows(tables: Tables) -> None:
    row = tables("windows").set_index("t_s").loc[5]
    assert (row["vacuum_overdue_s"], row["autovacuum_workers_busy"], row["autovacuum_workers_free"]) == (3.0, 2.0, 0.0)
