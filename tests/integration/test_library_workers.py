"""Published libraries at work, without a whole run: `tests/end_to_end/test_libraries.py` has such a run of each."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import pytest

from stallbench.collectors.statements import StatementsCollector
from stallbench.engines.postgres import connect
from stallbench.libraries import find_library
from stallbench.libraries.installation import find_missing_requirement, require_installed
from stallbench.records.events import Event
from tests.integration.faulty_run import faulty_run
from tests.integration.watched_statements import sample, watch

pytestmark = pytest.mark.integration

OPTIONS = {"graphile_worker": "", "laravel": "sleep = 0.1"}
"""Of one library in JavaScript and one in PHP. By default, Laravel's workers sleep for seconds when they have found no job."""
JOBS = 100


@pytest.mark.parametrize("name", OPTIONS)
def test_a_library_completes_all_jobs_and_its_claim_statement_is_measured(tmp_path: Path, name: str) -> None:
    library = find_library(name)
    if missing := find_missing_requirement(library):
        pytest.skip(missing)
    require_installed(library, print)
    with faulty_run(tmp_path, queue=f"library:{name}", queue_options=OPTIONS[name]) as run:
        assert run.queue.library is not None
        assert run.queue.library.version == library.version
        endpoint = run.cluster.server("primary").direct
        with connect(endpoint, "test") as connection:
            connection.execute("CREATE EXTENSION IF NOT EXISTS pg_stat_statements")
        run.wait_until_jobs_complete(JOBS)
        enqueued = {row["job_id"]: int(row["t_ns"]) for row in run.events(Event.ENQUEUED)}
        assert len(enqueued) >= JOBS
        run.wait_until(lambda: set(enqueued) <= {row["job_id"] for row in run.events(Event.COMPLETED)}, "the end of these jobs")
        with closing(watch(StatementsCollector, endpoint, run.scenario.queue.kind, tmp_path)) as collector:
            counted = sample(collector)
        claims = run.events(Event.CLAIMED)
    assert counted["claim_statement", "claim_statement_calls"] >= 20, "a statement may claim several jobs"
    assert counted["claim_statement", "claim_statement_buffers"] > counted["claim_statement", "claim_statement_calls"]
    assert {row["duration_ns"] for row in claims} == {""}, "the time of a library's claim cannot be measured in the worker"
    assert {row["process"] for row in claims} == {"worker-1", "worker-2"}
