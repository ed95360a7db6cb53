"""Jobs as a published library is given them: their numbers, their arguments, and what distinguishes them from other jobs."""

from __future__ import annotations

import os
import zlib
from collections.abc import Iterator, Sequence
from functools import cache
from itertools import count, islice

from stallbench.queues.queue import DEFAULT_QUEUE, NewJob, Precondition

_NUMBERS_PER_PRODUCER = 2**30
"""Times the highest process id (2^22) this is below 2^53: JavaScript reads the numbers exactly."""


def take_numbers(how_many: int) -> list[int]:
    """Return the next numbers of this process's jobs."""
    return list(islice(_job_numbers(), how_many))


def make_arguments(number: int, job: NewJob) -> dict[str, object]:
    """Return the arguments of a job; only a unique job has a key, and only a job that is not in the default queue has a queue."""
    arguments = {"n": number, "sum": zlib.crc32(f"{number}:{job.payload}".encode()), "payload": job.payload}
    more = {"key": job.key, "queue": "" if job.queue == DEFAULT_QUEUE else job.queue}
    return arguments | {name: value for name, value in more.items() if value}


def find_preconditions(numbers: Sequence[int], jobs: Sequence[NewJob]) -> dict[int, Precondition]:
    """Return the keys of unique jobs, and the queues of those that are not in the default one, by number."""
    found = {}
    for number, job in zip(numbers, jobs, strict=True):
        if job.key:
            found[number] = Precondition(kind="key", subject=job.key)
        elif job.queue != DEFAULT_QUEUE:
            found[number] = Precondition(kind="queue", subject=job.queue)
    return found


@cache
def _job_numbers() -> Iterator[int]:
    """Return the numbers of this process's jobs. All its queues share them: it opens another one after an error, and Locust one for each user."""
    return count(os.getpid() * _NUMBERS_PER_PRODUCER + 1)
