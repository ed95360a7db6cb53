"""What a torture does with its folder."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from junitparser import TestSuite

from stallbench.report.junit import make_case
from stallbench.report.outcome_text import OutcomeTile, word_of_queue
from stallbench.studies.junit import make_run_suite, write_junit
from stallbench.studies.kind import Conclusion, StudyKind
from stallbench.studies.page import Page, PageTable, write_pages
from stallbench.studies.torture.outcome import NOT_TRIED, PROMISES, RESULTS, TortureOutcome, TrialOutcome
from stallbench.studies.torture.plan import TorturePlan
from stallbench.studies.torture.record import TortureFolder, TortureRecord
from stallbench.studies.torture.screen import describe_repetition, print_torture


class TortureKind(StudyKind[TortureRecord]):
    """A queue at every crash point."""

    title = "torture"
    folder = TortureFolder
    has_baseline = False

    def conclude_record(self, folder: TortureFolder, record: TortureRecord) -> Conclusion[TortureRecord]:
        """Show what the runs have shown."""

        def write() -> None:
            write_pages(folder, record, _make_page(record))
            write_junit(folder.path, record.plan.kind, record, _list_suites(folder.path, record))

        return Conclusion(folder, record, write, lambda report: print_torture(record, report))


def list_point_tables(plan: TorturePlan, outcome: TortureOutcome) -> list[PageTable]:
    """Return the tables of a page that show what holds at each point, and what does not hold, if anything."""
    points = PageTable(
        title="Points and promises",
        hint="times: how many processes were killed or paused at the point",
        headers=("point", "action", "times", *PROMISES.values()),
        rows=[
            (str(each.trial.point), each.trial.action, str(each.hits), *(each.state_of(check) for check in PROMISES))
            for each in outcome.trials
        ],
    )
    found = [
        *(
            (str(each.trial.point), each.trial.action, str(reason), describe_repetition(plan, each))
            for each in outcome.trials
            for reason in each.reasons
        ),
        *(("at no known point", "", str(each), f"repeat, with all points: {plan.command}") for each in outcome.elsewhere),
        *(("could not be judged", "", str(each), "") for each in outcome.undecided),
    ]
    what = PageTable(title="What does not hold", headers=("point", "action", "what happened", "repeat"), rows=found)
    return [points, what] if found else [points]


def _make_page(record: TortureRecord) -> Page:
    plan = record.plan
    return Page(
        kicker=f"torture · seed {plan.seed}",
        title="processes of the queue were killed or paused at each of its crash points",
        subject=f"{plan.kind} on {plan.engine}",
        sentences=[word_of_queue(plan.title, record.words)],
        tiles=_list_tiles(record),
        tables=list_point_tables(plan, record.outcome),
        command=plan.command,
    )


def _list_tiles(record: TortureRecord) -> list[OutcomeTile]:
    trials = record.outcome.trials
    states = [each.state_of(check) for each in trials for check in PROMISES]
    return [
        OutcomeTile(
            label="points tried", figure=f"{len({str(each.trial.point) for each in trials}):,}", note=f"{len(trials):,} trials"
        ),
        OutcomeTile(label="promises that hold", figure=f"{states.count('holds'):,}", note="at all points together"),
        OutcomeTile(label="promises broken", figure=f"{record.outcome.broken:,}", note="at all points together"),
        OutcomeTile(label="not known", figure=f"{states.count('unknown'):,}", note="at all points together"),
    ]


def _list_suites(folder: Path, record: TortureRecord) -> Iterator[TestSuite]:
    """Yield a suite with a case for each promise at each point, and one for each run that was not completed."""
    where = f"torture.{record.plan.kind}"
    suite = TestSuite("stallbench.torture")
    for each in record.outcome.trials:
        for check, title in PROMISES.items():
            name = f"{title} at {each.trial.point} ({each.trial.action})"
            suite.add_testcase(
                make_case(name, f"{where}.{each.trial.point}", RESULTS[each.state_of(check)], _reason_of(each, check))
            )
    for result, reasons in (("fail", record.outcome.elsewhere), ("unknown", record.outcome.undecided)):
        for reason in reasons:
            suite.add_testcase(make_case("nothing is wrong at no known point", f"{where}.elsewhere", result, str(reason)))
    yield suite
    for run in record.runs:
        if run.status != "completed":
            yield make_run_suite(f"stallbench.torture.run-{run.number}", folder, run, f"{where}.run-{run.number}")


def _reason_of(each: TrialOutcome, check: str) -> str:
    reasons = [str(reason) for reason in each.reasons if reason.check in (check, NOT_TRIED)]
    return "; ".join(reasons) or "it is not promised, or not known"


KIND = TortureKind()
