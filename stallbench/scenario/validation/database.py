"""What can be wrong with the section ``[database]``, besides what its model finds: settings that the bench itself sets."""

from __future__ import annotations

from collections.abc import Iterator

from stallbench.engines import ENGINES
from stallbench.scenario.validation.content import Content, as_table
from stallbench.scenario.validation.issue import ValidationIssue


def find_database_issues(content: Content) -> Iterator[ValidationIssue]:
    """Find settings without which the bench cannot run its servers, each at its name."""
    if content.database is None:
        return
    own = ENGINES[content.database.engine].own_settings
    for key in ("settings", "replica_settings"):
        for name in as_table(content.table("database").get(key)):
            if name in own:
                what_to_do = f"use {own[name]}" if own[name] else "leave it out"
                yield ValidationIssue(("database", key, name), f" is set by the bench itself; {what_to_do}")
