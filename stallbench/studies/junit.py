"""``junit.xml`` of a study: what it shows, a suite for each run, with a case for each finding of its verdict, and one for the findings against the baseline."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from junitparser import TestSuite

from stallbench.report.junit import make_case, write_suites
from stallbench.studies.regressions import CHECK
from stallbench.studies.study import StudyRecord, StudyRun
from stallbench.verdicts.verdict_file import NAME, read_verdict
from stallbench.visible_text import make_visible


def make_run_suite(title: str, runs: Path, run: StudyRun, where: str) -> TestSuite:
    """Return the suite of a run. ``runs``: where its folder is. ``where``: what the names of the classes of its cases begin with."""
    suite = TestSuite(title)
    folder = runs / (run.folder or "")
    if run.status == "completed" and run.folder and (folder / NAME).is_file():
        for finding in read_verdict(folder).findings:
            suite.add_testcase(make_case(finding.subject, f"{where}.{finding.check}", finding.result, finding.reason))
    else:
        reason = f"{run.status}: {run.reason or 'no reason was recorded'}"
        suite.add_testcase(make_case("the run is carried out", f"{where}.status", "unknown", reason))
    return suite


def write_junit(folder: Path, scenario: str, record: StudyRecord, suites: Iterable[TestSuite]) -> None:
    """Write ``junit.xml`` with ``suites`` and one more, which has a case with the verdict of the study and one for each finding against its baseline.

    The verdict is also a property of that suite, because a case that passes has no message.
    """
    words = record.words
    of_study = TestSuite(make_visible(f"stallbench.{scenario}"))
    of_study.add_testcase(make_case("what the study shows", f"{record.id}.verdict", words.result, words.sentence))
    of_study.add_property("verdict", make_visible(words.sentence))
    for finding in record.regressions:
        of_study.add_testcase(make_case(finding.subject, f"{record.id}.{CHECK}", finding.result, finding.reason))
    write_suites(folder / "junit.xml", [of_study, *suites])
