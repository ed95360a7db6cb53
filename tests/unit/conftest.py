"""What all unit tests share: no process is started to check the longrunners of the scenarios that they read."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.unit.scenario_text import ask_longrunners_here


@pytest.fixture(scope="session", autouse=True)
def longrunners_here() -> Iterator[None]:
    """Let the longrunners' own check run in this process. Tests in `test_scenario_file` and all end-to-end tests run the real command."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("stallbench.scenario.validation.longrunners.ask_longrunners", ask_longrunners_here)
        yield
