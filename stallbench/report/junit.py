"""A verdict as JUnit XML, so that CI shows it: one case a finding."""

from __future__ import annotations

from pathlib import Path

from junitparser import Error, Failure, JUnitXml, TestCase, TestSuite

from stallbench.verdicts import RunTables, Verdict
from stallbench.whole_file import replace_file


def write_junit(path: Path, run: RunTables, verdict: Verdict) -> None:
    """Write a run's verdict to ``path``: a check that fails is a failure, one that is unknown and a run that did not end are errors."""
    suite = TestSuite(f"stallbench.{run.record['scenario']['name']}")
    for finding in verdict.findings:
        case = TestCase(finding.subject, classname=f"{run.record['id']}.{finding.check}")
        if finding.result == "fail":
            case.result = [Failure(finding.reason)]
        elif finding.result == "unknown":
            case.result = [Error(finding.reason)]
        suite.add_testcase(case)
    if verdict.status != "completed":
        case = TestCase("the run is carried out", classname=f"{run.record['id']}.status")
        case.result = [Error(verdict.reason)]
        suite.add_testcase(case)
    xml = JUnitXml()
    xml.add_testsuite(suite)
    replace_file(path, xml.tostring().decode())  # type: ignore[no-untyped-call]
