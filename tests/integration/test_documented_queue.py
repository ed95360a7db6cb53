"""The diff in docs/add-a-queue.md is a queue that works as its test there says."""

from __future__ import annotations

from pathlib import Path

import pytest

from stallbench.queues import queue_client, user_queue
from tests.documented_diff import load_test, read_added_lines
from tests.integration.conftest import EmptyOn

pytestmark = pytest.mark.integration


def test_the_documented_queue_claims_the_newest_job_first(
    empty_on: EmptyOn, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = read_added_lines("add-a-queue.md")
    for file, code in files.items():
        (tmp_path / Path(file).name).write_text(code)
    queue = user_queue.load_queue(f"{tmp_path}/newest_first.py:NewestFirst")
    monkeypatch.setattr(queue_client, "find_queue", lambda _: queue)
    load_test(files)["test_the_newest_job_is_claimed_first"](empty_on)
