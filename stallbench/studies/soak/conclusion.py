"""Makes a soak's drift and pages from its folder. This can be repeated at any time."""

from __future__ import annotations

import json
from collections.abc import Mapping

from junitparser import TestSuite

from stallbench.processes.reaper import is_bench_alive
from stallbench.report.junit import make_case, write_suites
from stallbench.studies.regressions import make_regression_suite
from stallbench.studies.soak.drift import Drift, adjust_drifts, find_drift
from stallbench.studies.soak.folder import SoakFolder
from stallbench.studies.soak.record import CycleRecord, SoakRecord
from stallbench.studies.soak.regression import find_regressions
from stallbench.studies.soak.report import make_pages
from stallbench.verdicts.check import Finding

_HOUR_S = 3600.0


def conclude_soak(folder: SoakFolder) -> tuple[SoakRecord, Mapping[str, Drift | None], tuple[Finding, ...], bool]:
    """Find the drift, write the record and the pages; returns record, drift, findings against a baseline, and whether the soak is still running.

    If it runs in another process, the record is left to that process. Raises `BadInputError` if ``folder`` holds no soak.
    """
    record = folder.read()
    drifts = find_drifts(record)
    record = record.model_copy(update={"drift": {name: drift.as_json() if drift else None for name, drift in drifts.items()}})
    regressions = find_regressions(folder, record, drifts)
    record = record.model_copy(update={"regressions": tuple(finding.as_json() for finding in regressions)})
    is_running = record.status == "running" and is_bench_alive(dict(record.bench))
    if not is_running:
        folder.write(record)
    _write_junit(folder, record, regressions)
    make_pages(folder, record, drifts, regressions, is_running=is_running)
    return record, drifts, regressions, is_running


def find_drifts(record: SoakRecord) -> Mapping[str, Drift | None]:
    """Return the drift of each figure that two or more cycles have, by name; none if its subject was another one in each cycle.

    The p-values are adjusted for all of them.
    """
    begins_h = dict(zip((cycle.number for cycle in record.completed), begin_hours(record), strict=True))
    names = dict.fromkeys(name for cycle in record.completed for name in cycle.figures)
    drifts: dict[str, Drift | None] = {}
    for name in names:
        cycles = [cycle for cycle in record.completed if name in cycle.figures]
        if len(cycles) > 1:
            drifts[name] = find_drift(
                [begins_h[cycle.number] for cycle in cycles],
                [cycle.figures[name].value for cycle in cycles],
                [_segment_of(cycle, name) for cycle in cycles],
            )
    return adjust_drifts(drifts)


def begin_hours(record: SoakRecord) -> list[float]:
    """Return when each completed cycle began, in hours since the first one; the time in which the bench did not run is left out."""
    hours, spent_s = [], 0.0
    for cycle in record.completed:
        hours.append(spent_s / _HOUR_S)
        spent_s += cycle.spent_s
    return hours


def _segment_of(cycle: CycleRecord, name: str) -> tuple[int, str]:
    return cycle.server_set, cycle.figures[name].subject


def _write_junit(folder: SoakFolder, record: SoakRecord, regressions: tuple[Finding, ...]) -> None:
    """Write ``junit.xml`` into the soak's folder: a suite for each cycle, with a case for each finding of its verdict, and one for ``regressions``."""
    suites = [_make_suite(folder, record, cycle) for cycle in record.cycles]
    if regressions:
        suites.append(make_regression_suite(record.scenario.name, record.id, regressions))
    write_suites(folder.path / "junit.xml", suites)


def _make_suite(folder: SoakFolder, record: SoakRecord, cycle: CycleRecord) -> TestSuite:
    suite = TestSuite(f"{record.scenario.name}.cycle-{cycle.number:04d}")
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
