"""The examples of docs/ci.md, copied into a user's project: what they assert is what the reader wants to know."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from stallbench import PROJECT
from tests.documented_blocks import find_block
from tests.end_to_end.test_first_project import Installed, in_clone

__all__ = ["in_clone"]

pytestmark = pytest.mark.end_to_end

PLUGINS = ("-p", "stallbench.testing.plugin", "-p", "no:cacheprovider", "--rootdir=.", "--stallbench-reports=kept")
EXAMPLE = find_block("docs/ci.md", "python", "def test_no_job")
SURVIVAL = find_block("docs/ci.md", "python", "def test_the_queue_survives")
MARKER = find_block("docs/ci.md", "python", "pytestmark")


def add_queue(folder: Path) -> None:
    """Write the queue that the page names: that of `stallbench init`."""
    (folder / "app").mkdir()
    for suffix in ("py", "sql"):
        shutil.copy(PROJECT / "examples" / "first-project" / f"my_queue.{suffix}", folder / "app" / f"queue.{suffix}")


@pytest.mark.long
def test_the_first_example_passes(in_clone: Installed) -> None:
    add_queue(in_clone.folder)
    (in_clone.folder / "test_mine.py").write_text(EXAMPLE)
    in_clone.run("pytest", "-q", *PLUGINS)


@pytest.mark.long
def test_the_second_example_passes(in_clone: Installed) -> None:
    add_queue(in_clone.folder)
    (in_clone.folder / "test_mine.py").write_text(SURVIVAL)
    in_clone.run("pytest", "-q", *PLUGINS)


@pytest.mark.long
def test_the_first_example_fails_if_jobs_wait(in_clone: Installed) -> None:
    add_queue(in_clone.folder)
    load = '"producers.rate": 100'
    assert load in EXAMPLE
    (in_clone.folder / "test_mine.py").write_text(EXAMPLE.replace(load, f'{load}, "workers.work": "45ms"'))
    printed = in_clone.run("pytest", "-q", *PLUGINS, exit_code=1)
    assert "oldest_job_s.last in longtx is" in printed, printed


@pytest.mark.long
def test_the_marker_gives_the_arguments(in_clone: Installed) -> None:
    add_queue(in_clone.folder)
    scenario = (PROJECT / "examples" / "first-project" / "scenario.toml").read_text()
    (in_clone.folder / "app" / "longtx.toml").write_text(scenario.replace("my_queue.py:MyQueue", "skip_locked"))
    test = "def test_mine(stallbench):\n    assert stallbench.run(phases={'longtx': '5s'}, expect=[]).passed\n"
    (in_clone.folder / "test_mine.py").write_text(f"import pytest\n\n{MARKER}\n\n{test}")
    in_clone.run("pytest", "-q", *PLUGINS)
    (path,) = (in_clone.folder / "kept").glob("*/*-longtx/run.json")
    record = json.loads(path.read_text())
    assert record["queue"]["kind"] == "app/queue.py:MyQueue"
    assert record["scenario"]["producers"]["rate"] == 100
