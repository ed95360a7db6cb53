"""Whose clock Laravel's queue compares times of: each process's, or the server's."""

from __future__ import annotations

import time

import pytest

from stallbench.engines import EngineName
from stallbench.queues import NewJob
from stallbench.queues.queue_client import close_queue, open_queue
from tests.integration.conftest import EmptyOn

pytestmark = pytest.mark.integration

AN_HOUR_S = 3600


@pytest.mark.parametrize("engine", ["postgres", "mariadb"])
@pytest.mark.parametrize(("whose", "is_stolen"), [("client", True), ("server", False)])
def test_a_process_whose_clock_is_ahead_steals_a_reservation_unless_the_server_s_time_counts(
    empty_on: EmptyOn, engine: EngineName, whose: str, is_stolen: bool
) -> None:
    endpoint = empty_on(engine)
    owner, ahead = (open_queue("laravel", {"time": whose, "retry_after": 600}, endpoint, name) for name in ("owner", "ahead"))
    ahead.clock = lambda: time.time() + AN_HOUR_S
    owner.install()
    (job_id,) = owner.enqueue([NewJob(payload="{}")])
    assert [claim.job_id for claim in owner.claim()] == [job_id]
    assert [claim.job_id for claim in ahead.claim()] == ([job_id] if is_stolen else [])
    for queue in (owner, ahead):
        close_queue(queue, engine)


@pytest.mark.parametrize(("whose", "is_available"), [("client", False), ("server", True)])
def test_a_process_whose_clock_is_behind_does_not_see_a_new_job_unless_the_server_s_time_counts(
    empty_on: EmptyOn, whose: str, is_available: bool
) -> None:
    endpoint = empty_on("postgres")
    producer, behind = (open_queue("laravel", {"time": whose}, endpoint, name) for name in ("producer", "behind"))
    behind.clock = lambda: time.time() - AN_HOUR_S
    producer.install()
    (job_id,) = producer.enqueue([NewJob(payload="{}")])
    assert [claim.job_id for claim in behind.claim()] == ([job_id] if is_available else [])
    for queue in (producer, behind):
        close_queue(queue, "postgres")
