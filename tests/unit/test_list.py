"""`stallbench list` names every scenario and variant, with its summary."""

from __future__ import annotations

from typer.testing import CliRunner

from stallbench.cli import app
from stallbench.scenario.file import find_scenarios, read_scenario, read_variants


def test_every_scenario_and_variant_is_listed_with_its_summary() -> None:
    listed = CliRunner().invoke(app, ["list"])
    assert listed.exit_code == 0
    lines = listed.stdout.splitlines()
    for name, path in find_scenarios().items():
        place = lines.index(f"{name}  {read_scenario(name).summary}")
        variants = read_variants(path)
        assert lines[place + 1 : place + 1 + len(variants)] == [
            f"    --variant {variant}  {summary}" for variant, summary in variants.items()
        ]
