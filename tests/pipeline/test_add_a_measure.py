"""A measure takes one entry: the entry and the test in docs/add-a-measure.md work as they are."""

from __future__ import annotations

from pathlib import Path

import pytest

from stallbench import measures
from stallbench.measure_definition import Measure
from stallbench.measures import MEASURES, metric_names
from stallbench.scenario.expectation import Expectation
from tests.documented_diff import load_test, read_added_lines
from tests.pipeline.conftest import MakeTables
from tools.measures_page import describe_measures


@pytest.fixture
def added_files() -> dict[str, str]:
    """What the page's diff adds to each file."""
    return read_added_lines("add-a-measure.md")


@pytest.fixture
def added_measure(added_files: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> Measure:
    """The page's entry, among all measures."""
    measure = eval(added_files["stallbench/measures.py"].strip().removesuffix(","), vars(measures))
    assert isinstance(measure, Measure)
    monkeypatch.setitem(MEASURES, measure.name, measure)
    return measure


def test_an_expectation_can_name_it(added_measure: Measure) -> None:
    for statistic in added_measure.statistics:
        metric = f"{added_measure.name}.{statistic}"
        assert Expectation(metric=metric, phase="baseline", at_most=1).metric == metric
        assert metric in metric_names()


def test_the_docs_list_it(added_measure: Measure, added_files: dict[str, str]) -> None:
    assert f"| `{added_measure.name}` | {added_measure.unit} | {added_measure.meaning} |" in added_files["docs/measures.md"]
    assert added_files["docs/measures.md"] in describe_measures()


@pytest.mark.long
def test_the_pipeline_computes_it_as_on_the_page(
    added_measure: Measure, added_files: dict[str, str], make: MakeTables, tmp_path: Path
) -> None:
    test = load_test(added_files)
    (run_test,) = [test[name] for name in test if name.startswith("test_")]
    run_test(make, tmp_path)
