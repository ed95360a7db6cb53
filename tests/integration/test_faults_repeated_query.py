"""Other clients repeat a query, which cannot write, and leave nothing."""

from __future__ import annotations

from pathlib import Path

import pytest

from stallbench.engines.postgres.driver import connect
from tests.integration.faulty_run import FaultyRun, faulty_run

pytestmark = pytest.mark.integration

SESSIONS = "SELECT count(*) FROM pg_stat_activity WHERE application_name LIKE 'stallbench:repeated_query%'"


def count_sessions(run: FaultyRun) -> int:
    with connect(run.cluster.server("primary").direct, "test") as connection:
        row = connection.execute(SESSIONS).fetchone()
        assert row is not None
        return int(row[0])


def test_each_client_gets_answers_until_it_ends(tmp_path: Path) -> None:
    with faulty_run(tmp_path, workers=1) as run:
        record = run.inject("repeated_query", sql="SELECT count(*) FROM {table}", every="0.5s", clients=3)
        assert record.evidence["query"] == "SELECT count(*) FROM skip_locked_jobs"
        assert count_sessions(run) == 3
        run.go_on_for(2)
        ended = run.end_faults()
        assert ended.active_to_end
        assert ended.evidence["answered"] >= 3
        assert count_sessions(run) == 0


def test_it_cannot_write(tmp_path: Path) -> None:
    with faulty_run(tmp_path, workers=1) as run:
        run.inject("repeated_query", sql="WITH gone AS (DELETE FROM {table} RETURNING 1) SELECT count(*) FROM gone")
        with pytest.raises(Exception, match="read-only"):
            run.go_on_for(2)
