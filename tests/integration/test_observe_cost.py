"""`stallbench observe` on a server with ten thousand tables and hundreds of sessions: what it costs."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import psutil
import pytest

from stallbench.engines.postgres import connect
from stallbench.observe.observer import GREATEST_SHARE, pause_after
from stallbench.observe.postgres.session import ReadOnlySession
from stallbench.records.endpoint import Endpoint
from stallbench.scenario.database import Database
from tests.integration.observed import observer_of, section_of
from tests.integration.running_cluster import running_cluster
from tests.integration.test_observe_queues import RIVER

pytestmark = [pytest.mark.integration, pytest.mark.long]

TABLES, SESSIONS = 10_000, 500
FOR_S = 60.0
FIRST_REPORT_S = 10.0
_TABLES_AT_ONCE = 500
_CREATE = """
DO $$ BEGIN FOR n IN {first}..{last} LOOP
  EXECUTE format('CREATE TABLE t_%s (id int PRIMARY KEY, a text); INSERT INTO t_%s VALUES (1), (2); DELETE FROM t_%s WHERE id = 1', n, n, n);
END LOOP; END $$
"""


@pytest.fixture
def crowded(tmp_path: Path) -> Iterator[Endpoint]:
    """A server with many tables, each with a dead row, and many sessions."""
    settings: dict[str, str | int | float | bool] = {
        "fsync": False,
        "max_connections": SESSIONS + 50,
        "max_locks_per_transaction": 512,
        "autovacuum": False,
    }
    with running_cluster(Database(settings=settings), tmp_path) as started, ExitStack() as sessions:
        endpoint = started.cluster.server("primary").direct
        with connect(endpoint, "fixture") as admin:
            for first in range(0, TABLES, _TABLES_AT_ONCE):
                admin.execute(_CREATE.format(first=first, last=first + _TABLES_AT_ONCE - 1))
        for number in range(SESSIONS):
            sessions.enter_context(connect(endpoint, f"session-{number}"))
        yield endpoint


@pytest.mark.timeout(600)
def test_the_first_report_sees_everything_within_ten_seconds(crowded: Endpoint) -> None:
    with connect(crowded, "fixture") as admin:
        admin.execute(RIVER)
        admin.execute("INSERT INTO river_job (state) SELECT 'available' FROM generate_series(1, 50)")
    began_s = time.monotonic()
    with observer_of(crowded) as observer:
        observation = observer.look()
    took_s = time.monotonic() - began_s
    assert not observation.unseen, "no query met its time limit"
    assert took_s < FIRST_REPORT_S, f"{took_s:.1f} s"
    (depth,) = [row for row in section_of(observation, "Queues").rows if "river_job" in " ".join(row)]
    assert "50" in " ".join(depth)
    assert section_of(observation, "Tables").rows


@pytest.mark.timeout(600)
def test_it_uses_less_than_a_hundredth_of_a_core(crowded: Endpoint) -> None:
    with observer_of(crowded) as observer:
        observer.look()
        session = observer.sessions["primary"]
        assert isinstance(session, ReadOnlySession)
        ((pid,),) = session.execute("SELECT pg_backend_pid()").fetchall()
        processes = {"client": psutil.Process(), "server": psutil.Process(pid)}
        before_s = {name: cpu_of(process) for name, process in processes.items()}
        began_s = time.monotonic()
        while (left_s := began_s + FOR_S - time.monotonic()) > 0:
            cpu_s = time.process_time()
            observation = observer.look()
            assert section_of(observation, "Who holds")
            time.sleep(min(pause_after(observation.spent_s, time.process_time() - cpu_s, 5.0), left_s))
        for_s = time.monotonic() - began_s
        shares = {name: (cpu_of(process) - before_s[name]) / for_s for name, process in processes.items()}
    assert max(shares.values()) < GREATEST_SHARE, shares


def cpu_of(process: psutil.Process) -> float:
    times = process.cpu_times()
    return float(times.user + times.system)
