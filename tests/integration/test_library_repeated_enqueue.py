"""A library that repeats an enqueue whose answer was lost has the job twice, which `docs/libraries-in-faults.md` says of it."""

from __future__ import annotations

import pytest

from stallbench.libraries import find_library
from stallbench.libraries.installation import find_missing_requirement
from stallbench.queues import NewJob
from stallbench.queues.queue_client import opened_queue
from tests.integration.conftest import EmptyOn
from tests.integration.relay import relay_before

pytestmark = [pytest.mark.integration, pytest.mark.libraries]


def test_laravel_has_a_job_twice_if_the_answer_to_its_insert_was_lost(empty_on: EmptyOn) -> None:
    if missing := find_missing_requirement(find_library("laravel")):
        pytest.skip(missing)
    server = empty_on("postgres")
    with (
        relay_before(server) as relay,
        opened_queue("library:laravel", {"emulate_prepares": True}, relay.endpoint, "test") as queue,
    ):
        queue.require_programs(print)
        queue.install()
        queue.enqueue([NewJob(payload="{}")])
        relay.lose_answer(b'insert into "jobs"')
        queue.enqueue([NewJob(payload="{}")])  # no error: the library reconnects and executes the statement again
        assert queue.depth() == 3
