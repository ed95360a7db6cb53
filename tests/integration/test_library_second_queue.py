"""Workers of a library execute the jobs of its second queue as well, which count like those of the default one."""

from __future__ import annotations

from pathlib import Path

import pytest

from stallbench.libraries import find_libraries, find_library
from stallbench.libraries.installation import find_missing_requirement
from stallbench.queues import find_queue
from stallbench.queues.second_queue import SECOND_QUEUE
from stallbench.records.events import Event
from tests.integration.faulty_run import faulty_run

pytestmark = [pytest.mark.integration, pytest.mark.libraries]

BURST = 100


@pytest.mark.parametrize("name", [name for name, library in sorted(find_libraries().items()) if library.second_queue])
def test_jobs_of_both_queues_are_executed(tmp_path: Path, name: str) -> None:
    library = find_library(name)
    if missing := find_missing_requirement(library):
        pytest.skip(missing)
    find_queue(f"library:{name}").require_programs(print)
    served = f"{SECOND_QUEUE} = true" if SECOND_QUEUE in library.options else ""
    with faulty_run(tmp_path, queue=f"library:{name}", queue_options=served) as run:
        run.inject("burst", on="producers", at_once=BURST, queue=library.second_queue)
        noisy = {row["job_id"] for row in run.events(Event.ENQUEUED) if row["detail"] == f"queue:{library.second_queue}"}
        assert len(noisy) == BURST
        run.wait_until(lambda: noisy <= {row["job_id"] for row in run.events(Event.COMPLETED)}, "the jobs of the second queue")
        run.wait_until_jobs_complete()
