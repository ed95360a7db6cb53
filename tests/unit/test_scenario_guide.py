"""The table of keys in docs/add-a-scenario.md has every key of a scenario, with its default."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel
from pydantic.fields import FieldInfo

from stallbench.base.duration import format_duration
from stallbench.engines.database import Database
from stallbench.injection.maintenance import find_maintenance_kinds
from stallbench.scenario.expectation import ComparisonChoice, Expectation
from stallbench.scenario.model import ScenarioContent
from stallbench.scenario.requirement import Requirement
from stallbench.scenario.sections import Bystander, Collectors, Phase, Producers, Workers

DOCS = Path(__file__).resolve().parents[2] / "docs"
GUIDE = (DOCS / "add-a-scenario.md").read_text()
EXTERNAL = (DOCS / "external-servers.md").read_text()
ROWS: dict[str, str] = dict(re.findall(r"^\| `([^`]+)` \|.*\| ([^|]+) \|$", GUIDE, re.MULTILINE))
SECTIONS: dict[str, type[BaseModel]] = {
    "database.": Database,
    "producers.": Producers,
    "workers.": Workers,
    "collectors.": Collectors,
    "bystander.": Bystander,
    "phases[].": Phase,
    "expect[].": Expectation,
    "require[].": Requirement,
}
IN_SECTIONS = {"database", "queue", "producers", "workers", "collectors", "bystander", "phases", "expect", "require"}
KEYS = [
    *((key, field) for key, field in ScenarioContent.model_fields.items() if key not in IN_SECTIONS),
    *(
        (prefix + (field.alias or name), field)
        for prefix, model in SECTIONS.items()
        for name, field in model.model_fields.items()
    ),
]
REQUIRED_TOGETHER = "producers.rate"
"""Its default of 0 counts only beside a `capacity_share`."""


def shown_default(field: FieldInfo) -> str | None:
    """Return how the guide shows a default; none where it may describe it in words."""
    default: Any = field.get_default(call_default_factory=True)
    if field.is_required():
        return "required"
    if isinstance(default, bool):
        return "true" if default else "false"
    if field.alias and isinstance(default, float):
        return f'`"{format_duration(default)}"`'
    if isinstance(default, int | float):
        return f"{default:g}"
    return f'`"{default}"`' if isinstance(default, str) else None


@pytest.mark.parametrize(("key", "field"), KEYS, ids=[key for key, _ in KEYS])
def test_every_key_is_in_the_guide_with_its_default(key: str, field: FieldInfo) -> None:
    assert key in ROWS
    expected = shown_default(field)
    if expected is not None and key != REQUIRED_TOGETHER:
        assert ROWS[key] == expected


def test_the_guide_has_no_key_that_a_scenario_does_not_have() -> None:
    documented = {key for key in ROWS if "." in key}
    assert documented == {key for key, _ in KEYS if "." in key} | {"queue.kind"}


def test_every_key_of_a_comparison_is_in_the_guide() -> None:
    (row,) = [line for line in GUIDE.splitlines() if line.startswith("| `comparison` |")]
    assert all(f"`{key}`" in row for key in ComparisonChoice.model_fields)


@pytest.mark.parametrize("kind", find_maintenance_kinds())
def test_every_kind_of_maintenance_is_in_the_guide_with_its_options(kind: str) -> None:
    (row,) = [line for line in GUIDE.splitlines() if line.startswith(f"| `{kind}` |")]
    for name, field in find_maintenance_kinds()[kind].options_type.model_fields.items():
        assert f"`{field.alias or name}` ({shown_default(field) or ''}" in row


@pytest.mark.parametrize("kind", [name for name, task in find_maintenance_kinds().items() if task.on_external == "never"])
def test_a_task_that_external_servers_refuse_says_so_in_the_guide_and_on_their_page(kind: str) -> None:
    (row,) = [line for line in GUIDE.splitlines() if line.startswith(f"| `{kind}` |")]
    assert "refused on external servers" in row
    (unavailable,) = [line for line in EXTERNAL.splitlines() if line.startswith("| not available |")]
    assert f"`{kind}`" in unavailable
