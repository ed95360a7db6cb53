"""`stallbench list` names every scenario and variant, with its summary."""

from __future__ import annotations

import pytest
from typer.testing import CliRunner

from stallbench.cli import app
from stallbench.scenario.file import find_scenarios, read_scenario, read_variants
from stallbench.scenario.longrunner_issue import LongrunnerIssue
from tests.unit.scenario_text import ask_longrunners_here


def test_every_scenario_and_variant_is_listed_with_its_summary(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    def ask(questions: str) -> list[list[LongrunnerIssue]]:
        asked.append(questions)
        return ask_longrunners_here(questions)

    monkeypatch.setattr("stallbench.scenario.validation.longrunners._answered", {})
    monkeypatch.setattr("stallbench.scenario.validation.longrunners.ask_longrunners", ask)
    monkeypatch.setattr("stallbench.scenario.file._known", {})
    listed = CliRunner().invoke(app, ["list"])
    assert listed.exit_code == 0
    assert len(asked) == 1, "one process is asked about the longrunners of all scenarios"
    lines = listed.stdout.splitlines()
    for name, path in find_scenarios().items():
        place = lines.index(f"{name}  {read_scenario(name).summary}")
        variants = read_variants(path)
        assert lines[place + 1 : place + 1 + len(variants)] == [
            f"    --variant {variant}  {summary}" for variant, summary in variants.items()
        ]
