"""A job that fails is not lost: the library offers it again or keeps it as failed, and the definition's snapshot has it either way."""

from __future__ import annotations

from pathlib import Path

import pytest

from stallbench.libraries import find_libraries, find_library
from stallbench.libraries.installation import find_missing_requirement
from stallbench.queues import find_queue
from stallbench.queues.queue_client import opened_queue
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


def test_a_job_that_waits_for_its_retry_is_not_completed_when_the_retry_is_due(tmp_path: Path) -> None:
    """Dramatiq keeps such a job in a second queue, and acknowledges it there when it enqueues it again."""
    with faulty_run(tmp_path, queue="library:dramatiq_pg") as run:
        run.inject("failing_jobs", on="workers")
        run.wait_until(lambda: len(run.events(Event.FAILED)) >= FAILING, f"{FAILING} failed jobs")
        run.end_faults()
        failed = {row["job_id"] for row in run.events(Event.FAILED)}

        def find(event: Event) -> dict[str, list[int]]:
            times_ns: dict[str, list[int]] = {job: [] for job in failed}
            for row in run.events(event):
                if row["job_id"] in failed:
                    times_ns[row["job_id"]].append(int(row["t_ns"]))
            return times_ns

        run.wait_until(lambda: all(len(times) >= 2 for times in find(Event.CLAIMED).values()), "the second execution of each")
        run.load.stop()
        claimed, completed = find(Event.CLAIMED), find(Event.COMPLETED)
    assert {len(times) for times in completed.values()} == {1}
    assert all(completed[job][0] > claimed[job][1] for job in failed)
