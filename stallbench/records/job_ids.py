"""How a job is named whose id the queue has given to a later job, too.

A server that loses its last commits may also forget which ids it has given; the next jobs then get the ids of lost ones. Ids of queues are
positive, so a negative one names such an earlier job.
"""

from __future__ import annotations

EARLIER_STEP = 2**56
"""The first job with id 5 is -5 if there is a second one; if there is a third, the second one is so much lower. Above every real id."""


def describe_job(job_id: int) -> str:
    """Return a job's id, and whether the queue gave it again."""
    return str(job_id) if job_id >= 0 else f"{-job_id % EARLIER_STEP} (assigned again)"
