"""From the folders of a comparison and its runs to its results and pages; can be done again at any time."""

from __future__ import annotations

import json
from pathlib import Path

from stallbench.comparison.record import ComparedRun, ComparisonFolder, ComparisonRecord
from stallbench.comparison.report import make_pages
from stallbench.comparison.results import Results, find_results
from stallbench.comparison.values import read_values
from stallbench.pipeline.failures import NoTableError
from stallbench.verdicts.check import RunTables

_OF_SAFETY = ("conservation", "duplicates")
"""Checks whose failure means that a queue lost jobs, or worked them again without a reason."""


def conclude_comparison(folder: ComparisonFolder) -> tuple[ComparisonRecord, Results]:
    """Read every run's values and verdict anew, find the results, and write record and pages.

    Of a run whose folder is gone, what the record has of it stays. Raises `BadInputError` if ``folder`` holds no comparison.
    """
    record = folder.read()
    for run in record.runs:
        if run.status == "completed" and run.folder is not None:
            record = record.with_run(_read_run(folder.runs / run.folder, run, record))
    results = find_results(record)
    record = record.model_copy(update={"results": results.as_json()})
    folder.write(record)
    make_pages(folder, record, results)
    return record, results


def _read_run(path: Path, run: ComparedRun, record: ComparisonRecord) -> ComparedRun:
    try:
        values = read_values(RunTables(path), record.subjects)
        verdict = json.loads((path / "verdict.json").read_text())
    except (NoTableError, FileNotFoundError):
        return run
    unsafe = [f["reason"] for f in verdict["findings"] if f["check"] in _OF_SAFETY and f["result"] == "fail"]
    found = {"verdict": verdict["verdict"], "reason": verdict["reason"], "broken": next(iter(unsafe), "")}
    return run.model_copy(update={"values": values, **found})
