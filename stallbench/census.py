"""The last look into the queue: which jobs it still holds once nobody works any more."""

from __future__ import annotations

from pathlib import Path

from stallbench.connection import open_queue
from stallbench.records.endpoint import Endpoint
from stallbench.scenario import QueueChoice


def take_census(queue: QueueChoice, endpoint: Endpoint, path: Path) -> int:
    """Write every job of the queue to ``path``, as docs/run-folder.md has it, and return how many there are.

    The file gets its name only when it is whole: half a census would turn queued jobs into lost ones.
    """
    fresh = path.with_suffix(".csv.new")
    count = 0
    opened = open_queue(queue.kind, queue.options, endpoint, "census")
    with opened.connection, fresh.open("w") as file:
        for job_id, claimed in opened.job_ids():
            file.write(f"{job_id},{'claimed' if claimed else 'queued'}\n")
            count += 1
        file.write(f"end,{count}\n")
    fresh.replace(path)
    return count
