"""A soak for CI: a suite for each cycle, with a case for each thing that was checked in it."""

from __future__ import annotations

import json

from junitparser import TestSuite

from stallbench.report.junit import make_case, write_suites
from stallbench.soak.folder import SoakFolder
from stallbench.soak.record import CycleRecord, SoakRecord


def write_junit(folder: SoakFolder, record: SoakRecord) -> None:
    """Write ``junit.xml`` into the soak's folder, from the cycles' verdicts."""
    write_suites(folder.path / "junit.xml", [_make_suite(folder, record, cycle) for cycle in record.cycles])


def _make_suite(folder: SoakFolder, record: SoakRecord, cycle: CycleRecord) -> TestSuite:
    suite = TestSuite(f"{record.scenario['name']}.cycle-{cycle.number:04d}")
    suite.time = cycle.spent_s
    where = f"{record.id}.{cycle.number:04d}"
    verdict = folder.cycle(cycle.number).path / "verdict.json"
    if cycle.status == "completed" and cycle.verdict is not None and verdict.is_file():
        for finding in json.loads(verdict.read_text())["findings"]:
            suite.add_testcase(make_case(finding["subject"], f"{where}.{finding['check']}", finding["result"], finding["reason"]))
    else:
        reason = f"{cycle.status}: {cycle.reason or 'no reason was recorded'}"
        suite.add_testcase(make_case("the cycle is carried out", f"{where}.status", "unknown", reason))
    return suite
