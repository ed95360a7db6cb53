"""A worker of a library that is asked to stop as soon as it is ready, as in a deployment that follows another one, ends in order."""

from __future__ import annotations

from pathlib import Path

import pytest

from stallbench.libraries import find_libraries, find_library
from stallbench.libraries.installation import find_missing_requirement
from stallbench.processes.process import ROLE_READY_S, ROLE_STOP_S
from stallbench.queues import find_queue
from tests.integration.faulty_run import faulty_run

pytestmark = [pytest.mark.integration, pytest.mark.libraries]


@pytest.mark.parametrize("name", sorted(find_libraries()))
def test_a_worker_that_has_just_started_ends_in_order(tmp_path: Path, name: str) -> None:
    if missing := find_missing_requirement(find_library(name)):
        pytest.skip(missing)
    find_queue(f"library:{name}").require_programs(print)
    with faulty_run(tmp_path, queue=f"library:{name}") as run:
        for _ in range(2):
            worker = run.load.replace(run.process("worker-1"))
            worker.wait_ready(ROLE_READY_S)
            worker.stop(ROLE_STOP_S)
        run.wait_until_jobs_complete()
        run.load.stop()
        assert not [f"{process.name} {process.describe_end()}" for process in run.processes.exited_unexpectedly()]
