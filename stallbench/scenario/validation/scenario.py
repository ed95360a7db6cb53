"""Finds all issues of a scenario at once: first those of each section, then those that concern several sections.

The check of a section uses only the valid parts of other sections, so an issue in a phase does not hide an issue in an expectation.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any

from stallbench.base.validation_issue import ValidationIssue
from stallbench.scenario.model import ScenarioContent
from stallbench.scenario.toml import find_unusable_values
from stallbench.scenario.validation.chaos import find_chaos_issues
from stallbench.scenario.validation.comparison import find_comparison_issues
from stallbench.scenario.validation.database import find_database_issues
from stallbench.scenario.validation.expectations import find_expectation_issues
from stallbench.scenario.validation.faults import find_fault_issues
from stallbench.scenario.validation.keys_and_values import find_key_and_value_issues
from stallbench.scenario.validation.longrunners import ask_about_longrunners, find_longrunner_issues
from stallbench.scenario.validation.maintenance import find_maintenance_issues
from stallbench.scenario.validation.phases import find_phase_issues
from stallbench.scenario.validation.producers import find_producer_issues
from stallbench.scenario.validation.queue import find_queue_issues
from stallbench.scenario.validation.raw_scenario import RawScenario
from stallbench.scenario.validation.requirements import find_requirement_issues
from stallbench.scenario.validation.workers import find_worker_issues


def find_issues(content: Mapping[str, Any], variants: Collection[str] = ()) -> list[ValidationIssue]:
    """Return every issue of ``content``, a scenario's file with its variant applied; empty if it can be run.

    ``variants``: the names of all of the file's variants, which a comparison may name.
    """
    given = RawScenario(raw=content, variants=variants)
    unusable = list(find_unusable_values(content))
    reported = {issue.path for issue in unusable}
    of_values = [*find_key_and_value_issues(ScenarioContent, content), *find_queue_issues(given)]
    return [
        *unusable,
        *(issue for issue in of_values if issue.path not in reported),
        *find_phase_issues(given),
        *find_producer_issues(given),
        *find_database_issues(given),
        *find_worker_issues(given),
        *find_expectation_issues(given),
        *find_requirement_issues(given),
        *find_comparison_issues(given),
        *([] if unusable else find_longrunner_issues(given)),
        *find_fault_issues(given),
        *find_chaos_issues(given),
        *find_maintenance_issues(given),
    ]


def prepare_answers(contents: Iterable[Mapping[str, Any]]) -> None:
    """Ask another process once for everything that `find_issues` needs to know about each of ``contents``."""
    ask_about_longrunners(RawScenario(raw=content) for content in contents if not any(find_unusable_values(content)))
