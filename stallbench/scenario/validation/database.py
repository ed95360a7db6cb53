"""Validates, in the section ``[database]``, what its model does not: settings that the bench itself sets."""

from __future__ import annotations

from collections.abc import Iterator

from stallbench.base.validation_issue import ValidationIssue
from stallbench.engines import ENGINES
from stallbench.scenario.validation.raw_scenario import RawScenario, as_table


def find_database_issues(content: RawScenario) -> Iterator[ValidationIssue]:
    """Find settings that a scenario must not change, because the bench needs them to run its servers."""
    if content.database is None:
        return
    own = ENGINES[content.database.engine].own_settings
    for key in ("settings", "replica_settings"):
        for name in as_table(content.table("database").get(key)):
            if name in own:
                what_to_do = f"use {own[name]}" if own[name] else "leave it out"
                yield ValidationIssue(("database", key, name), f" is set by the bench itself; {what_to_do}")
