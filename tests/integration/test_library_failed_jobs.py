"""A job that fails is not lost: the library offers it again or keeps it as failed, and the definition's snapshot has it either way."""

from __future__ import annotations

from pathlib import Path

import pytest

from stallbench.libraries import find_libraries, find_library
from stallbench.libraries.installation import find_missing_requirement
from stallbench.processes.queue_client import opened_queue
from stallbench.queues import find_queue
from stallbench.records.events import Event
from tests.integration.faulty_run import faulty_run

pytestmark = [pytest.mark.integration, pytest.mark.libraries]

FAILING = 20
KEEPS_FAILED = {"pgqueuer": 'on_failure = "hold"'}
"""The option by which a library keeps a failed job; by default, PgQueuer deletes it."""


@pytest.mark.parametrize(
    "name", [name for name, library in sorted(find_libraries().items()) if library.promise == "at_least_once"]
)
def test_a_job_that_fails_is_in_the_snapshot(tmp_path: Path, name: str) -> None:
    if missing := find_missing_requirement(find_library(name)):
        pytest.skip(missing)
    kind = f"library:{name}"
    find_queue(kind).require_programs(print)
    with faulty_run(tmp_path, queue=kind, queue_options=KEEPS_FAILED.get(name, "")) as run:
        run.inject("failing_jobs", on="workers")
        run.wait_until(lambda: len(run.events(Event.FAILED)) >= FAILING, f"{FAILING} failed jobs")
        run.load.stop()
        run.end_faults()
        enqueued, completed = ({int(row["job_id"]) for row in run.events(event)} for event in (Event.ENQUEUED, Event.COMPLETED))
        with opened_queue(kind, run.queue.options, run.cluster.server("primary").direct, "snapshot") as queue:
            held = {number for number, _ in queue.job_ids()}
    assert enqueued - completed - held == set()
