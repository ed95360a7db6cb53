"""The page of the queues' options is made from their declarations."""

from __future__ import annotations

import pytest

from stallbench import PROJECT
from stallbench.queues import find_queues
from tools.queues_page import describe_queues


def test_the_page_is_current() -> None:
    page = (PROJECT / "docs" / "queues.md").read_text()
    assert page == describe_queues(), "renew it by: python -m tools.queues_page"


@pytest.mark.parametrize("kind", find_queues())
def test_an_option_that_several_queues_share_is_described_once(kind: str) -> None:
    section = describe_queues().partition(f"## {kind}\n")[2].partition("\n## ")[0]
    options = find_queues()[kind].options_type.model_fields
    missing = [name for name, field in options.items() if f"\n| `{field.alias or name}` |" not in section]
    assert not missing or "It has the options of [" in section
