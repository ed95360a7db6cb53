"""A server that was moved close to wraparound refuses writes when its transaction ids are used up, until its databases are frozen."""

from __future__ import annotations

from pathlib import Path

import pytest

from stallbench.errors import NotCarriedOutError
from stallbench.observe.diagnostic import Severity
from stallbench.records.events import Event
from tests.integration.faulty_run import faulty_run
from tests.integration.observed import finding_about, look_at

pytestmark = pytest.mark.integration

HALF = 2**31


def test_writes_are_refused_until_the_holder_is_removed_and_the_databases_are_frozen(tmp_path: Path) -> None:
    with faulty_run(tmp_path, workers=1, database="xids_left = 1000") as run:
        run.wait_until_jobs_complete()
        struck = run.inject("wraparound", ended_after="0s")
        assert HALF - 4_000_000 < struck.evidence["age"] < HALF
        observed = finding_about(look_at(run.cluster.server("primary").direct), "left until the server refuses to write")
        assert observed.severity is Severity.CRITICAL
        assert observed.statement == "VACUUM (FREEZE, SKIP_LOCKED);"
        run.wait_until(lambda: run.faults()[-1].verified_gone_ns is not None, "the end of the fault", within_s=180)
        ended = run.faults()[-1]
        assert ended.active_to_end
        assert ended.evidence["warnings"] > 0
        assert ended.evidence["refusals"] > 0
        assert ended.evidence["age_after"] < 1_000_000
        assert {row["detail"].partition(" ")[0] for row in run.events(Event.ERROR)} == {"54000"}
        run.wait_until_jobs_complete(within_s=60)


def test_it_requires_a_server_that_was_moved(tmp_path: Path) -> None:
    with faulty_run(tmp_path, workers=0) as run, pytest.raises(NotCarriedOutError, match=r"database\.xids_left"):
        run.inject("wraparound")
