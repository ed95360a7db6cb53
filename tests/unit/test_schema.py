"""The JSON Schema of scenario files accepts what validation accepts, and rejects unknown keys and wrong types, as validation does."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from stallbench.commands.scenarios import validate
from stallbench.scenario.file import ScenarioError, find_scenarios, read_scenario
from stallbench.scenario.overlay import Overlay
from stallbench.scenario.schema import SCHEMA_FILE, make_schema, write_schema

SMALL = """
summary = "A small one."
queue = { kind = "que" }
producers.rate = 100

[[phases]]
name = "only"
duration = "10s"
faults = [{ kind = "kill", on = "workers", every = "2s" }]
"""
WRONG = {
    "an unknown key": "wokers.count = 3",
    "an unknown key of a section": "workers.cuont = 3",
    "a text for a number": 'workers.count = "3"',
    "a number for a text": "seed = 1\ndatabase.engine = 3",
    "a number for a duration": "workers.work = 3",
    "a duration without a unit": 'workers.work = "3"',
    "an unknown engine": 'database.engine = "oracle"',
    "a value out of range": "workers.count = -1",
    "an unknown key of maintenance": 'maintenance = [{ kind = "watchdog", evry = "1s" }]',
    "an unknown kind of maintenance": 'maintenance = [{ kind = "watchdogs" }]',
    "an unknown key of an expectation": 'expect = [{ metric = "depth.max", at_mots = 3 }]',
    "a table for an array": 'expect = { metric = "depth.max", at_most = 3 }',
    "an unknown requirement": 'require = "survive"',
    "an unknown requirement of several": 'require = ["safe", "recover"]',
    "an unknown key of a requirement": 'require = [{ outcome = "safe", abrt = true }]',
    "an unknown judge": 'judge = "survive"',
    "variants that are no tables": "variants = 3",
    "an unknown key of a variant": 'variants.x = { wokers = "y" }',
}
CHANGED = {
    "an unknown queue": ('"que"', '"qeu"'),
    "an unknown option of the queue": ('kind = "que"', 'kind = "que", bacth = 3'),
    "an unknown fault": ('"kill"', '"kil"'),
    "an unknown option of a fault": ("every", "evry"),
    "a wrong type of an option": ('"2s"', "2"),
    "a missing key": ('name = "only"\n', ""),
}


@pytest.fixture(scope="module")
def schema() -> dict[str, Any]:
    return make_schema()


@pytest.fixture(scope="module")
def validator(schema: dict[str, Any]) -> jsonschema.Draft7Validator:
    jsonschema.Draft7Validator.check_schema(schema)
    return jsonschema.Draft7Validator(schema)


def spoiled() -> list[Any]:
    added = [pytest.param(f"{text}\n{SMALL}", id=name) for name, text in WRONG.items()]
    return [*added, *(pytest.param(SMALL.replace(old, new), id=name) for name, (old, new) in CHANGED.items())]


def test_the_committed_schema_is_that_of_the_models(schema: dict[str, Any]) -> None:
    assert SCHEMA_FILE.read_text() == write_schema(schema), f"run: stallbench schema > {SCHEMA_FILE.name}"


@pytest.mark.parametrize("path", find_scenarios().values(), ids=find_scenarios())
def test_every_scenario_with_each_variant_fits_and_names_the_schema(path: Path, validator: jsonschema.Draft7Validator) -> None:
    text = path.read_text()
    assert text.startswith(f"#:schema {SCHEMA_FILE.name}\n")
    content = tomllib.loads(text)
    validator.validate(content)
    for name, overlay in content.pop("variants", {}).items():
        changed, issues = Overlay(content=overlay, prefix=f"variants.{name}.", condition="").apply(content)
        assert not issues
        validator.validate(changed)


@pytest.mark.parametrize("text", spoiled())
def test_what_structural_validation_rejects_does_not_fit(
    text: str, validator: jsonschema.Draft7Validator, tmp_path: Path
) -> None:
    path = tmp_path / "spoiled.toml"
    path.write_text(text)
    with pytest.raises(ScenarioError):
        read_scenario(str(path))
    assert not validator.is_valid(tomllib.loads(text))


def test_the_small_scenario_that_is_spoiled_is_valid(
    validator: jsonschema.Draft7Validator, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "small.toml"
    path.write_text(SMALL)
    validator.validate(tomllib.loads(SMALL))
    for required in ('"safe"', '["safe", "unaffected"]', '[{ outcome = "recovers", abort = true }]'):
        validator.validate(tomllib.loads(f'judge = "survives"\nrequire = {required}\n{SMALL}'))
    validate([str(path)])
    assert capsys.readouterr().out == "valid\n"
    (tmp_path / "bad.toml").write_text(f"wokers.count = 3\n{SMALL}")
    (tmp_path / "worse.toml").write_text(SMALL.replace('"que"', '"qeu"'))
    with pytest.raises(ScenarioError) as error:
        validate([str(path), str(tmp_path / "bad.toml"), str(tmp_path / "worse.toml")])
    assert [issue.split(": ")[0].rsplit("/")[-1] for issue in error.value.issues] == ["bad.toml", "worse.toml"]
