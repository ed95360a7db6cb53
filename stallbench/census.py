"""The last look into the queue: which jobs it still holds once nobody works any more."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from stallbench.queues import Queue


def take_census(queue: Queue[Any], path: Path) -> int:
    """Write every job of the queue to ``path``, as docs/run-folder.md has it, and return how many there are.

    The file gets its name only when it is whole: half a census would turn queued jobs into lost ones.
    """
    fresh = path.with_suffix(".csv.new")
    count = 0
    with fresh.open("w") as file:
        for job_id, claimed in queue.job_ids():
            file.write(f"{job_id},{'claimed' if claimed else 'queued'}\n")
            count += 1
        file.write(f"end,{count}\n")
    fresh.replace(path)
    return count
