"""What is particular to Aerospike's server, on the one that STALLBENCH_AEROSPIKE names: 127.0.0.1:3000/test."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from stallbench.engines import driver_of
from stallbench.engines.aerospike.starter import ExternalAerospike
from stallbench.errors import NotCarriedOutError
from stallbench.queues import NewJob, RefusedError
from stallbench.queues.queue_client import opened_queue
from stallbench.records.endpoint import Endpoint
from stallbench.run.backlog import take_final_snapshot
from stallbench.servers.cleanup_journal import CleanupJournal
from stallbench.waiting import wait_until
from tests.integration.conftest import EmptyOn
from tests.waiting import PATIENCE_S

pytestmark = pytest.mark.integration

JOB = NewJob(payload="{}")
KINDS = ("fcfs", "id_store", "token_store")


@pytest.fixture
def endpoint(empty_on: EmptyOn) -> Endpoint:
    return empty_on("aerospike")


@pytest.fixture
def queue(request: pytest.FixtureRequest, endpoint: Endpoint) -> Iterator[Any]:
    with opened_queue(request.param, {}, endpoint, "test") as opened:
        opened.install()
        yield opened


def test_a_namespace_that_the_server_does_not_have_is_noticed_before_the_run(endpoint: Endpoint) -> None:
    with pytest.raises(NotCarriedOutError, match=r"has no namespace 'nowhere'; it has \w+"):
        ExternalAerospike(endpoint.model_copy(update={"database": "nowhere/stallbench_0"}))


@pytest.mark.parametrize("queue", KINDS, indirect=True)
def test_the_cleanup_journal_removes_every_record_of_the_run(
    request: pytest.FixtureRequest, queue: Any, endpoint: Endpoint, tmp_path: Path
) -> None:
    (job_id,) = queue.enqueue([JOB])
    assert queue.store.read(job_id) is not None
    journal = CleanupJournal(tmp_path)
    journal.record_sets(request.node.callspec.params["queue"], endpoint)
    assert journal.clean_up().sentences == []
    with closing(driver_of("aerospike").connect(endpoint, "proof")) as proof:
        keys = [queue.store.store, queue.store.job_key(job_id)]
        assert wait_until(lambda: not any(proof.client.exists(key)[1] for key in keys), within_s=PATIENCE_S)


@pytest.mark.parametrize("queue", KINDS, indirect=True)
def test_after_the_server_has_lost_the_record_no_job_is_added_and_the_run_says_why(queue: Any, tmp_path: Path) -> None:
    queue.enqueue([JOB])
    queue.connection.client.remove(queue.store.store)
    with pytest.raises(driver_of("aerospike").errors, match="the queue's record is not on the Aerospike server"):
        queue.enqueue([JOB])
    with pytest.raises(
        NotCarriedOutError, match="snapshot of the queue failed: the queue's record is not on the Aerospike server"
    ):
        take_final_snapshot(queue, tmp_path / "final_snapshot.csv")


@pytest.mark.parametrize("queue", ["id_store", "token_store"], indirect=True)
def test_a_claim_after_the_server_has_lost_the_record_is_an_error_and_creates_none(queue: Any) -> None:
    queue.connection.client.remove(queue.store.store)
    with pytest.raises(driver_of("aerospike").errors, match="the queue's record is not on the Aerospike server"):
        queue.claim()
    assert queue.connection.client.exists(queue.store.store)[1] is None


@pytest.mark.parametrize("queue", ["id_store"], indirect=True)
def test_the_server_s_own_limit_for_a_record_is_named(queue: Any) -> None:
    queue.store._options = queue.store._options.model_copy(update={"record_bytes": 10**9})
    with pytest.raises(RefusedError, match="it would exceed the server's own limit for a record"):
        queue.store._append(range(1, 2_000_000))


def test_the_function_is_registered_without_a_file_in_the_working_folder(
    endpoint: Endpoint, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with opened_queue("token_store", {}, endpoint, "test") as queue:
        queue.install()
        (job_id,) = queue.enqueue([JOB])
        assert queue.claim()[0].job_id == job_id
    assert not list(tmp_path.iterdir())
