"""A verdict as JUnit XML for CI: one case per finding. Hidden characters, of which XML allows few, are made visible."""

from __future__ import annotations

from collections.abc import Iterable

from junitparser import Error, Failure, JUnitXml, Skipped, TestCase, TestSuite

from stallbench.base.storage.address import AnyPath
from stallbench.base.storage.atomic_file import replace_file
from stallbench.report.outcome_text import describe_run
from stallbench.verdicts import RunTables, Verdict
from stallbench.visible_text import make_visible

_MARKS = {"fail": Failure, "unknown": Error, "info": Skipped}


def write_junit(path: AnyPath, run: RunTables, verdict: Verdict) -> None:
    """Write a run's verdict to ``path``: one case with the outcome and the verdict, one per finding, and one more, an error, for a run that did not
    complete. The outcome is also a property of the suite, because a case that passes has no message.
    """
    suite = TestSuite(make_visible(f"stallbench.{run.record.scenario.name}"))
    if not run.record.is_observation:
        outcome = describe_run(run.record, verdict)
        suite.add_testcase(make_case("what happened to the queue", f"{run.record.id}.outcome", verdict.verdict, outcome))
        suite.add_property("outcome", make_visible(outcome))
    for finding in verdict.findings:
        suite.add_testcase(make_case(finding.subject, f"{run.record.id}.{finding.check}", finding.result, finding.reason))
    if verdict.status != "completed":
        suite.add_testcase(
            make_case("the run completes", f"{run.record.id}.status", "unknown", describe_run(run.record, verdict))
        )
    write_suites(path, [suite])


def make_case(name: str, classname: str, result: str, reason: str) -> TestCase:
    """Return a case: ``fail`` is a failure, ``unknown`` an error, ``info`` is skipped, each with its ``reason``; ``pass`` has no mark."""
    case = TestCase(make_visible(name), classname=make_visible(classname))
    if result != "pass":
        case.result = [_MARKS[result](make_visible(reason))]
    return case


def write_suites(path: AnyPath, suites: Iterable[TestSuite]) -> None:
    """Replace ``path`` by the XML of ``suites``."""
    xml = JUnitXml()
    for suite in suites:
        xml.add_testsuite(suite)
    replace_file(path, xml.tostring().decode())  # type: ignore[no-untyped-call]
