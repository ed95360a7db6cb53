"""A library refuses a second job with the same key, if its definition says that it can."""

from __future__ import annotations

import pytest

from stallbench.libraries import find_libraries, find_library
from stallbench.libraries.installation import find_missing_requirement
from stallbench.queues import NewJob, RefusedError
from stallbench.queues.library_queue import LibraryQueue
from stallbench.queues.queue_client import opened_queue
from tests.integration.conftest import EmptyOn

pytestmark = [pytest.mark.integration, pytest.mark.libraries]


@pytest.mark.parametrize("name", [name for name, library in sorted(find_libraries().items()) if library.unique_jobs])
def test_one_job_is_accepted_for_each_key(empty_on: EmptyOn, name: str) -> None:
    if missing := find_missing_requirement(find_library(name)):
        pytest.skip(missing)
    with opened_queue(f"library:{name}", {}, empty_on("postgres"), "test") as queue:
        assert isinstance(queue, LibraryQueue)
        queue.require_programs(print)
        queue.install()
        (first,) = queue.enqueue([NewJob(payload="{}", key="1")])
        assert {number: str(key) for number, key in queue.preconditions.items()} == {first: "key:1"}
        with pytest.raises(RefusedError):
            queue.enqueue([NewJob(payload="{}", key="1")])
        (second,) = queue.enqueue([NewJob(payload="{}", key="2")])
        without_key = queue.enqueue([NewJob(payload="{}"), NewJob(payload="{}")])
        assert sorted(queue.job_ids()) == [(number, False) for number in (first, second, *without_key)]
