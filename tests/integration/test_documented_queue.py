"""The diff in docs/add-a-queue.md is a queue that works as its test there says."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from stallbench.processes.queue_client import close_queue, open_queue
from stallbench.queues import NewJob
from tests.integration.conftest import EmptyOn

pytestmark = pytest.mark.integration

PAGE = Path(__file__).parents[2] / "docs" / "add-a-queue.md"


def write_added_files(page: str, folder: Path) -> None:
    """Write each file that the page's diff adds into ``folder``, without its path."""
    (diff,) = re.findall(r"```diff\n(.*?)```", page, re.DOTALL)
    for name, lines in re.findall(r"^\+\+\+ b/\S*?([^/\s]+)\n@@[^\n]*\n(.*?)(?=^diff |\Z)", diff, re.DOTALL | re.MULTILINE):
        (folder / name).write_text("".join(f"{line[1:]}\n" for line in lines.splitlines()))


def test_the_documented_queue_claims_the_newest_job_first(empty_on: EmptyOn, tmp_path: Path) -> None:
    write_added_files(PAGE.read_text(), tmp_path)
    queue = open_queue(f"{tmp_path}/newest_first.py:NewestFirst", {}, empty_on("postgres"), "test")
    queue.install()
    oldest, newest = queue.enqueue([NewJob(payload="{}"), NewJob(payload="{}")])
    claimed = []
    for _ in range(2):
        (claim,) = queue.claim()
        claimed.append(claim.job_id)
        queue.complete(claim)
    close_queue(queue, "postgres")
    assert claimed == [newest, oldest]
