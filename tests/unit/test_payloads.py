"""What a producer puts into a job's arguments: a JSON document of the wanted size, random or of words."""

from __future__ import annotations

import json
import zlib
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from producers import enqueuer
from producers.enqueuer import Enqueuer, EnqueuerDocument


@pytest.fixture
def payload_of(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Any:
    """Makes the payload of job 7, without a server."""
    monkeypatch.setattr(enqueuer, "QueueClient", lambda *_, **__: SimpleNamespace())

    def make(**fields: object) -> str:
        endpoint = {"engine": "postgres", "host": "h", "port": 1, "database": "d", "user": "u", "password": "p"}
        document = {"name": "producer-1", "endpoint": endpoint, "queue": "que", "events": tmp_path / "e.csv", **fields}
        made: Any = Enqueuer(EnqueuerDocument.model_validate(document), None, None)  # type: ignore[arg-type]
        (job,) = made.make_jobs(range(7, 8))
        return str(job.payload)

    return make


@pytest.mark.parametrize("content", ["random", "text"])
@pytest.mark.parametrize("size", [256, 100_000])
def test_it_is_a_document_of_the_wanted_size_with_the_jobs_number(payload_of: Any, content: str, size: int) -> None:
    payload = payload_of(payload_bytes=size, payload_content=content)
    assert len(payload) == size
    assert json.loads(payload)["n"] == 7


def test_text_compresses_far_better_than_random_digits(payload_of: Any) -> None:
    of = {
        content: len(zlib.compress(payload_of(payload_bytes=100_000, payload_content=content).encode()))
        for content in ("random", "text")
    }
    assert of["text"] < of["random"] / 2


def test_the_same_seed_makes_the_same_payload(payload_of: Any) -> None:
    assert payload_of(seed=3, payload_content="text") == payload_of(seed=3, payload_content="text")
    assert payload_of(seed=3) != payload_of(seed=4)
