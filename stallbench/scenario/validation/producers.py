"""Validates the section ``[producers]`` against other sections.

Types and bounds of its keys are in `stallbench.scenario.sections`.
"""

from __future__ import annotations

from collections.abc import Iterator

from stallbench.base.validation_issue import ValidationIssue
from stallbench.discovery import LIBRARY_PREFIX
from stallbench.libraries import find_libraries
from stallbench.queues import NoQueueError, find_queue, list_queues_using
from stallbench.scenario.validation.raw_scenario import RawScenario


def find_producer_issues(content: RawScenario) -> Iterator[ValidationIssue]:
    """Find issues: a share of the workers' capacity without workers, keys that the queue does not use, or of a library's batches, and connections
    that the bench does not open.
    """
    if "capacity_share" in content.table("producers") and content.workers and not content.workers.count:
        problem = " is a share of what the workers can do, but workers.count is 0; expected a rate instead"
        yield ValidationIssue(("producers", "capacity_share"), problem)
    if content.producers and content.producers.key_every_s and (queue := _find_queue_without_keys(content)):
        problem = f" is given, but the bench enqueues jobs in {queue} without keys, so that none would be refused as a duplicate"
        libraries = (f"{LIBRARY_PREFIX}{name}" for name, library in find_libraries().items() if library.unique_jobs)
        others = ", ".join([*list_queues_using("key"), *libraries])
        yield ValidationIssue(("producers", "key_every"), f"{problem}; leave it out, or set queue.kind to one of {others}")
    elif content.producers and content.producers.key_every_s and content.producers.max_batch > 1 and _is_library(content):
        problem = (
            " is more than 1, and there are keys: a library refuses single jobs, of which its answer to a batch says nothing"
        )
        yield ValidationIssue(("producers", "max_batch"), f"{problem}; leave it out")
    if content.producers and content.producers.connection_per_call and content.queue and _is_library(content):
        problem = f" is true, but {content.queue.kind} opens and keeps its own connections; leave it out"
        yield ValidationIssue(("producers", "connection_per_call"), problem)


def _is_library(content: RawScenario) -> bool:
    return content.queue is not None and content.queue.kind.startswith(LIBRARY_PREFIX)


def _find_queue_without_keys(content: RawScenario) -> str | None:
    """Return the kind of the queue if its jobs have no keys; none if they have, or if there is no such queue."""
    try:
        queue = find_queue(content.queue.kind) if content.queue else None
    except NoQueueError:
        return None
    return None if queue is None or "key" in queue.used_job_fields else queue.kind
