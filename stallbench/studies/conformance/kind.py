"""What a test of conformance does with its folder."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from junitparser import TestSuite
from rich.markup import escape

from stallbench.console import VisibleConsole
from stallbench.report.junit import make_case
from stallbench.report.outcome_text import OutcomeTile, word_of_queue
from stallbench.report.terminal import format_words
from stallbench.studies.conformance.promise_outcome import describe_promise
from stallbench.studies.conformance.record import ConformanceFolder, ConformanceRecord
from stallbench.studies.junit import write_junit
from stallbench.studies.kind import Conclusion, StudyKind
from stallbench.studies.page import Page, PageTable, write_pages
from stallbench.studies.torture.kind import list_point_tables
from stallbench.studies.torture.outcome import STATES
from stallbench.verdicts.check import Result

_TILES: Mapping[Result, str] = {
    "pass": "promises that hold",
    "fail": "promises broken",
    "unknown": "not known",
    "info": "not promised",
}


class ConformanceKind(StudyKind[ConformanceRecord]):
    """Every promise of a queue."""

    title = "test of conformance"
    folder = ConformanceFolder
    has_baseline = False

    def conclude_record(self, folder: ConformanceFolder, record: ConformanceRecord) -> Conclusion[ConformanceRecord]:
        """Put together what is known of each promise."""
        if not record.is_running:
            record = record.model_copy(update={"promises": tuple(record.list_promises())})

        def write() -> None:
            write_pages(folder, record, _make_page(record))
            write_junit(folder.path, record.plan.kind, record, [make_suite(record)])

        return Conclusion(folder, record, write, lambda report: _print(record, report))


def make_suite(record: ConformanceRecord) -> TestSuite:
    """Return a suite with a case for each promise."""
    suite = TestSuite("stallbench.conform")
    for each in record.list_promises():
        suite.add_testcase(make_case(each.name, f"conform.{record.plan.kind}", each.result, each.reason))
    return suite


def _print(record: ConformanceRecord, report: str) -> None:
    """Print the promises that do not hold, which were printed when they were tried, too, the verdict, and the ``report``."""
    console = VisibleConsole(highlight=False, soft_wrap=True)
    console.print()
    for each in record.list_promises():
        if each.result not in ("pass", "info"):
            console.print(escape(describe_promise(each)))
    console.print(format_words(record.words))
    console.print(f"report: {report}")


def _make_page(record: ConformanceRecord) -> Page:
    plan = record.plan
    promises = PageTable(
        title="Promises",
        hint="not promised: the queue does not give the promise",
        headers=("promise", "result", "reason"),
        rows=[(each.name, STATES[each.result], each.reason) for each in record.list_promises()],
    )
    counts = Counter(each.result for each in record.list_promises())
    return Page(
        kicker=f"conform{'' if record.runs else f' · {plan.title} on {plan.engine}'} · seed {plan.seed}",
        title="every promise of the queue was tried",
        subject=f"{plan.kind} on {plan.engine}",
        sentences=[word_of_queue(plan.title, record.words)],
        tiles=[OutcomeTile(label=label, figure=f"{counts[result]:,}", note="") for result, label in _TILES.items()],
        tables=[promises, *(list_point_tables(plan, record.outcome) if record.outcome.trials else [])],
        command=record.command,
    )


KIND = ConformanceKind()
"""The test of a queue's promises."""
