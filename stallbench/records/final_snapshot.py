"""The final snapshot: a line for each job that the queue still held, ``<id>,queued`` or ``<id>,claimed``, then ``end,<number of jobs>``."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from stallbench.errors import NotCarriedOutError

FINAL_SNAPSHOT_FILE = "final_snapshot.csv"
COLUMNS = ("key", "word")
QUEUED = "queued"
CLAIMED = "claimed"
END = "end"
"""The key of the last line. Without it the snapshot is not complete, and queued jobs would be counted as lost."""


def format_snapshot(jobs: Iterable[tuple[int, bool]]) -> Iterator[str]:
    """Yield the lines for ``jobs``: the id of each, and whether it is claimed. Raises what ``jobs`` raises, and `NotCarriedOutError` for a job of which
    they say something else.
    """
    count = 0
    for job_id, is_claimed in jobs:
        if is_claimed not in (True, False):  # a text like 'f' would be true
            raise NotCarriedOutError(
                f"job_ids of the queue says {is_claimed!r} of job {job_id}; expected whether it is claimed, True or False"
            )
        yield f"{job_id},{CLAIMED if is_claimed else QUEUED}\n"
        count += 1
    yield f"{END},{count}\n"
