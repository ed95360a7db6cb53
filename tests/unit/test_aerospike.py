"""What the queues on Aerospike send to its client, and what they make of its answers.

No package has a server, so a stand-in takes the client's place here. tests/integration/test_aerospike.py and test_stores.py need a real one.
"""

from __future__ import annotations

import base64
import socket
from collections.abc import Iterator, Mapping
from importlib import import_module
from typing import Any

import pytest
from pydantic import SecretStr

from stallbench.engines import describe_error
from stallbench.engines.aerospike.driver import DRIVER, AerospikeConnection
from stallbench.engines.aerospike.starter import ExternalAerospike
from stallbench.errors import NotCarriedOutError
from stallbench.queues import NewJob, RefusedError, find_queue
from stallbench.records.endpoint import Endpoint

NAMESPACES = "namespaces\ttest;bar\n"


class RecordingClient:
    """Keeps each call, and answers with what a test has prepared for it: a value, an error to raise, or one of these for each call."""

    def __init__(self, **answers: Any) -> None:
        self.calls: list[tuple[str, tuple[Any, ...], Mapping[str, Any]]] = []
        self._answers = answers

    def __getattr__(self, name: str) -> Any:
        def answer(*arguments: Any, **named: Any) -> Any:
            self.calls.append((name, arguments, named))
            prepared = self._answers.get(name)
            value = next(prepared) if isinstance(prepared, Iterator) else prepared
            if isinstance(value, Exception):
                raise value
            return value

        return answer

    def called(self, name: str) -> list[tuple[Any, ...]]:
        return [arguments for called, arguments, _ in self.calls if called == name]


def connection_to(client: RecordingClient) -> AerospikeConnection:
    return AerospikeConnection(client=client, namespace="test", prefix="stallbench_0")


def test_a_connection_that_another_thread_uses_is_not_closed() -> None:
    client = RecordingClient()
    DRIVER.abort(connection_to(client))
    assert client.calls == []


def test_the_set_of_the_jobs_and_that_of_the_store_are_emptied() -> None:
    client = RecordingClient()
    connection_to(client).empty("fcfs")
    assert client.called("truncate") == [("test", "stallbench_0_fcfs", 0), ("test", "stallbench_0_fcfs_jobs", 0)]


def test_an_answer_is_what_follows_the_command() -> None:
    assert connection_to(RecordingClient(info_random_node=NAMESPACES)).ask("namespaces") == "test;bar"


@pytest.fixture
def open_port() -> Iterator[int]:
    """A port that is open, as an Aerospike server's is before it serves clients."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        yield listening.getsockname()[1]


class TestServerOfTheUser:
    def join(self, monkeypatch: pytest.MonkeyPatch, port: int, connections: list[Any]) -> ExternalAerospike:
        """Join a server whose attempts to connect end one after the other as ``connections`` says: an error, or a client."""
        ends = iter(connections)

        def connect(endpoint: Endpoint, name: str) -> AerospikeConnection:
            if isinstance(end := next(ends), Exception):
                raise end
            return connection_to(end)

        monkeypatch.setattr(DRIVER, "connect", connect)
        endpoint = Endpoint(
            engine="aerospike", host="127.0.0.1", port=port, database="test/stallbench_0", user="", password=SecretStr("")
        )
        return ExternalAerospike(endpoint)

    def serving(self, namespaces: str = NAMESPACES) -> RecordingClient:
        return RecordingClient(info_random_node=iter(["build\t8.1.2\n", namespaces]))

    def test_a_server_that_still_refuses_clients_is_asked_again(self, monkeypatch: pytest.MonkeyPatch, open_port: int) -> None:
        refused = DRIVER.errors[0]("Failed to connect")
        assert self.join(monkeypatch, open_port, [refused, refused, self.serving()]).version == "8.1.2"

    def test_a_closed_port_is_reported_at_once(self, monkeypatch: pytest.MonkeyPatch) -> None:
        with pytest.raises(NotCarriedOutError, match=r"Aerospike on 127\.0\.0\.1:1 .* cannot be reached: Failed to connect$"):
            self.join(monkeypatch, 1, [DRIVER.errors[0]("Failed to connect")])

    def test_a_namespace_that_is_not_there_is_reported_with_those_that_are(
        self, monkeypatch: pytest.MonkeyPatch, open_port: int
    ) -> None:
        with pytest.raises(NotCarriedOutError, match=r"has no namespace 'test'; it has bar, baz$"):
            self.join(monkeypatch, open_port, [self.serving("namespaces\tbar;baz\n")])


class TestStores:
    """Needs the client, which is an extra."""

    @pytest.fixture(autouse=True)
    def _client(self) -> None:
        pytest.importorskip("aerospike")

    def test_an_error_of_the_client_is_described_by_its_message(self) -> None:
        assert describe_error(DRIVER.errors[0]("gone")) == "gone"

    def test_a_counter_is_not_created_again_after_the_server_has_lost_it(self) -> None:
        from aerospike import POLICY_EXISTS_UPDATE, exception

        client = RecordingClient(operate=exception.RecordNotFound("2"))
        with pytest.raises(
            exception.RecordNotFound, match="the queue's record is not on the Aerospike server: the server was restarted"
        ):
            open_store("fcfs", client).enqueue([NewJob(payload="{}")])
        ((_, _, named),) = client.calls
        assert named["policy"]["exists"] == POLICY_EXISTS_UPDATE

    @pytest.mark.parametrize("kind", ["fcfs", "id_store", "token_store"])
    def test_without_the_record_the_jobs_that_are_left_cannot_be_listed(self, kind: str) -> None:
        from aerospike import exception

        with pytest.raises(exception.RecordNotFound, match="the queue's record is not on the Aerospike server"):
            list(open_store(kind, RecordingClient(get=exception.RecordNotFound("2"))).job_ids())

    @pytest.mark.parametrize(("popped", "job_id"), [([], None), ([7], 7)])
    def test_an_id_is_popped_as_a_range_which_may_be_empty(self, popped: list[int], job_id: int | None) -> None:
        from aerospike import OP_LIST_POP_RANGE

        client = RecordingClient(operate=(None, None, {"ids": popped}))
        assert open_store("id_store", client).pop() == job_id
        ((_, (operation,)),) = client.called("operate")
        assert (operation["op"], operation["index"], operation["val"]) == (OP_LIST_POP_RANGE, 0, 1)

    def test_the_server_s_own_limit_is_not_called_ours(self) -> None:
        from aerospike import exception

        answers = iter([(None, None, {"last_id": 220_001}), exception.RecordTooBig("13")])
        client = RecordingClient(operate=answers, get=(None, None, {"ids": [0] * 220_000}))
        with pytest.raises(RefusedError, match=r"220000 ids are in it, and with 1 more it would exceed the server's own limit"):
            open_store("id_store", client, record_bytes=10**9).enqueue([NewJob(payload="{}")])
        assert client.called("remove") == [(("test", "stallbench_0_id_store_jobs", 220_001),)]

    def test_our_limit_is_called_ours(self) -> None:
        from aerospike import exception

        answers = iter([(None, None, {"last_id": 2}), exception.FilteredOut("27")])
        client = RecordingClient(operate=answers, get=(None, None, {"ids": [1]}))
        with pytest.raises(RefusedError, match="1 ids of 8 bytes are in it and 1 more would exceed 8 bytes"):
            open_store("id_store", client, record_bytes=8).enqueue([NewJob(payload="{}")])

    def test_a_walk_reads_one_record_first_and_then_twice_as_many(self) -> None:
        class Batches(RecordingClient):
            def batch_read(self, keys: list[Any]) -> Any:
                self.calls.append(("batch_read", (keys,), {}))
                return type("Records", (), {"batch_records": [type("Record", (), {"result": 2})] * len(keys)})

        client = Batches()
        assert list(open_store("fcfs", client).held(range(1, 3001))) == []
        assert [len(keys) for (keys,) in client.called("batch_read")] == [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1000, 977]
        assert [key[2] for (keys,) in client.called("batch_read") for key in keys] == list(range(1, 3001))

    def test_a_walk_ends_with_the_batch_that_has_what_is_looked_for(self) -> None:
        record = type("Record", (), {"result": 0, "record": (None, None, {"id": 1, "payload": "{}", "state": 0})})
        client = RecordingClient(get=(None, None, {"last_id": 5000}), batch_read=type("Records", (), {"batch_records": [record]}))
        claim = open_store("fcfs", client).find_first_unprocessed()
        assert claim is not None and claim.job_id == 1
        assert len(client.called("batch_read")) == 1

    def test_the_function_is_sent_to_the_server_and_no_file_is_written(self) -> None:
        client = RecordingClient(info_random_node="udf-put:...\tok\n", udf_list=[{"name": "token_store.lua"}])
        open_store("token_store", client).install()
        assert not client.called("udf_put")
        ((command,),) = client.called("info_random_node")
        name, content, length, kind, end = command.removeprefix("udf-put:").split(";")
        assert (name, kind, end) == ("filename=token_store.lua", "udf-type=LUA", "")
        encoded = content.removeprefix("content=")
        assert length == f"content-len={len(encoded)}"
        assert b"function take(rec, stop_at_end)" in base64.b64decode(encoded)

    def test_a_function_that_the_server_does_not_accept_is_an_error_with_the_reason(self) -> None:
        from aerospike import exception

        client = RecordingClient(info_random_node="udf-put:...\terror=compile_error;file=token_store.lua;line=3")
        with pytest.raises(exception.UDFError, match=r"token_store\.lua: error=compile_error"):
            open_store("token_store", client).install()

    def test_a_token_of_a_record_that_is_gone_is_none_that_a_job_could_have(self) -> None:
        from aerospike import exception

        with pytest.raises(exception.RecordNotFound, match="the queue's record is not on the Aerospike server"):
            open_store("token_store", RecordingClient(apply=-1)).take_token()


def open_store(kind: str, client: RecordingClient, **options: Any) -> Any:
    options_type = find_queue(kind).options_type
    return import_module(f"stallbench.queues.aerospike.{kind}").STORE(connection_to(client), options_type(**options))
