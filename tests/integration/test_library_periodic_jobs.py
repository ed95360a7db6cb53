"""The scheduler of a library inserts a periodic job, and one of two worker processes executes it: once for each period, without a fault."""

from __future__ import annotations

from pathlib import Path

import pytest

from stallbench.libraries import find_libraries, find_library
from stallbench.libraries.definition import PERIODIC
from stallbench.libraries.installation import find_missing_requirement
from stallbench.queues import find_queue
from stallbench.records.events import Event
from tests.integration.faulty_run import FaultyRun, faulty_run

pytestmark = [pytest.mark.integration, pytest.mark.libraries]

SECONDS = {"river": 5}
"""A minute for others: in some that is the only period, and a worker of Procrastinate that stands still for longer than a period repeats it."""
MAY_REPEAT = ("oban",)
"""Two nodes are both leaders if they have started more than three seconds apart, as on a machine that stands still."""


def fired_by(run: FaultyRun) -> dict[int, set[str]]:
    """Return the jobs of each period, by the library's own ids."""
    jobs: dict[int, set[str]] = {}
    for row in run.events(Event.FIRED):
        jobs.setdefault(int(row["job_id"]), set()).add(row["detail"])
    return jobs


@pytest.mark.parametrize("name", [name for name, library in sorted(find_libraries().items()) if library.periodic_jobs])
def test_a_periodic_job_is_inserted_once_for_each_period(tmp_path: Path, name: str) -> None:
    if missing := find_missing_requirement(find_library(name)):
        pytest.skip(missing)
    find_queue(f"library:{name}").require_programs(print)
    with faulty_run(tmp_path, queue=f"library:{name}", queue_options=f"{PERIODIC} = {SECONDS.get(name, 60)}", workers=2) as run:
        run.wait_until(lambda: len(fired_by(run)) >= 2, "two periods", within_s=240)
        jobs = fired_by(run)
        assert sorted(jobs) == list(range(min(jobs), max(jobs) + 1)), "no period was skipped"
        assert name in MAY_REPEAT or all(len(of_period) == 1 for of_period in jobs.values()), jobs
        run.wait_until_jobs_complete()
