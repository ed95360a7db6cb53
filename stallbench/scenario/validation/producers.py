"""Validates the section ``[producers]`` against other sections."""

from __future__ import annotations

from collections.abc import Iterator

from stallbench.discovery import LIBRARY_PREFIX
from stallbench.scenario.validation.content import Content
from stallbench.scenario.validation.issue import ValidationIssue


def find_producer_issues(content: Content) -> Iterator[ValidationIssue]:
    """Find issues: a share of the workers' capacity without workers, or a connection for each call if the library's own producers connect."""
    if "capacity_share" in content.table("producers") and content.workers and not content.workers.count:
        problem = " is a share of what the workers can do, but workers.count is 0; expected a rate instead"
        yield ValidationIssue(("producers", "capacity_share"), problem)
    if (
        content.producers
        and content.producers.connection_per_call
        and content.queue
        and content.queue.kind.startswith(LIBRARY_PREFIX)
    ):
        problem = f" is true, but {content.queue.kind} opens and keeps its own connections; leave it out"
        yield ValidationIssue(("producers", "connection_per_call"), problem)
