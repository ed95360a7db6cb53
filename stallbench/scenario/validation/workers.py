"""Validates the section ``[workers]`` against other sections."""

from __future__ import annotations

from collections.abc import Iterator

from stallbench.base.validation_issue import ValidationIssue
from stallbench.engines import ENGINES
from stallbench.scenario.validation.raw_scenario import RawScenario, as_table

_CONNECTIONS_BESIDES = 20
"""The number of connections of the bench itself, its collectors and the longrunners."""


def find_worker_issues(content: RawScenario) -> Iterator[ValidationIssue]:
    """Find an issue: the processes need more connections than the server accepts."""
    workers, producers, database = content.workers, content.producers, content.database
    limited_by = ENGINES[database.engine].connection_limit if database else None
    if not workers or not producers or not limited_by:
        return
    setting, default = limited_by
    limit = as_table(content.table("database").get("settings")).get(setting, default)
    each = producers.users if producers.by_locust else 1
    needed = workers.count + producers.count * each + _CONNECTIONS_BESIDES
    if isinstance(limit, int) and needed > limit:
        yield ValidationIssue(
            ("workers", "count"),
            f" is {workers.count}: with the other processes that makes about {needed} connections, but the server accepts {limit}; "
            f"expected fewer, or database.settings.{setting} of at least {needed}",
        )
