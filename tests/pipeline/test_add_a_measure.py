"""A measure takes one entry: the entry and the test in docs/add-a-measure.md work as they are."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from stallbench import PROJECT, measures
from stallbench.measures import MEASURES, Measure, metric_names
from stallbench.scenario.expectation import Expectation
from tests.pipeline.conftest import MakeTables

PAGE = PROJECT / "docs" / "add-a-measure.md"


@pytest.fixture
def added_files() -> Mapping[str, str]:
    """What the page's diff adds to each file."""
    (diff,) = re.findall(r"```diff\n(.*?)```", PAGE.read_text(), re.DOTALL)
    parts = re.findall(r"^\+\+\+ b/(\S+)\n(.*?)(?=^diff |\Z)", diff, re.DOTALL | re.MULTILINE)
    return {file: "".join(f"{line}\n" for line in re.findall(r"^\+(.*)$", lines, re.MULTILINE)) for file, lines in parts}


@pytest.fixture
def added_measure(added_files: Mapping[str, str], monkeypatch: pytest.MonkeyPatch) -> Measure:
    """The page's entry, among all measures."""
    measure = eval(added_files["stallbench/measures.py"].strip().removesuffix(","), vars(measures))
    assert isinstance(measure, Measure)
    assert measure.name not in MEASURES
    monkeypatch.setitem(MEASURES, measure.name, measure)
    return measure


def test_an_expectation_can_name_it(added_measure: Measure) -> None:
    for statistic in added_measure.statistics:
        metric = f"{added_measure.name}.{statistic}"
        assert Expectation(metric=metric, phase="baseline", at_most=1).metric == metric
        assert metric in metric_names()


def test_the_docs_list_it(added_measure: Measure) -> None:
    assert f"| `{added_measure.name}` | {added_measure.unit} | {added_measure.meaning} |" in measures.describe_measures()


def test_the_pipeline_computes_it_as_the_page_s_test_says(
    added_measure: Measure, added_files: Mapping[str, str], make: MakeTables, tmp_path: Path
) -> None:
    (file,) = [name for name in added_files if name.startswith("tests/")]
    test: dict[str, Any] = {}
    exec(added_files[file], test)
    (run_test,) = [test[name] for name in test if name.startswith("test_")]
    run_test(make, tmp_path)
