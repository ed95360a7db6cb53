"""A verdict as JUnit XML, so that CI shows it: one case a finding."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from junitparser import Error, Failure, JUnitXml, TestCase, TestSuite

from stallbench.atomic_file import replace_file
from stallbench.verdicts import RunTables, Verdict


def write_junit(path: Path, run: RunTables, verdict: Verdict) -> None:
    """Write a run's verdict to ``path``: a check that fails is a failure, one that is unknown and a run that did not end are errors."""
    suite = TestSuite(f"stallbench.{run.record['scenario']['name']}")
    for finding in verdict.findings:
        suite.add_testcase(make_case(finding.subject, f"{run.record['id']}.{finding.check}", finding.result, finding.reason))
    if verdict.status != "completed":
        suite.add_testcase(make_case("the run is carried out", f"{run.record['id']}.status", "unknown", verdict.reason))
    write_suites(path, [suite])


def make_case(name: str, classname: str, result: str, reason: str) -> TestCase:
    """Return a case that passes, fails, or (``unknown``) is an error, with its ``reason``."""
    case = TestCase(name, classname=classname)
    if result != "pass":
        case.result = [Failure(reason) if result == "fail" else Error(reason)]
    return case


def write_suites(path: Path, suites: Iterable[TestSuite]) -> None:
    """Replace ``path`` by the XML of ``suites``."""
    xml = JUnitXml()
    for suite in suites:
        xml.add_testsuite(suite)
    replace_file(path, xml.tostring().decode())  # type: ignore[no-untyped-call]
