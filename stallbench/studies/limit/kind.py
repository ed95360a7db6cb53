"""What a search for a limit does with its folder."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path

from junitparser import TestSuite

from stallbench.report.junit import make_case
from stallbench.report.outcome_text import OutcomeTile
from stallbench.studies.junit import write_junit
from stallbench.studies.kind import Conclusion, StudyKind
from stallbench.studies.limit.baseline import read_limit_baseline
from stallbench.studies.limit.record import Limit, LimitFolder, LimitRecord
from stallbench.studies.limit.regression import find_regressions
from stallbench.studies.limit.screen import PROBE_HEADERS, describe_held_share, describe_limit, list_probe_rows, print_limits
from stallbench.studies.page import Page, PageTable, write_pages
from stallbench.verdicts.baseline.against import read_against
from stallbench.verdicts.baseline.baseline_file import Baseline


class LimitKind(StudyKind[LimitRecord]):
    """The highest rate that a queue sustains."""

    title = "search for a limit"
    folder = LimitFolder

    def conclude_record(self, folder: LimitFolder, record: LimitRecord) -> Conclusion[LimitRecord]:
        """Compare the limits with those of the baseline."""
        limits = record.find_limits()
        if record.status == "completed":
            plan = replace(record.plan, against=read_against(folder.path))
            record = record.model_copy(update={"regressions": find_regressions(plan, limits, folder.path)})
        record = record.model_copy(update={"limits": tuple(map(_without_probes, limits))})

        def write() -> None:
            write_pages(folder, record, _make_page(record, limits))
            write_junit(folder.path, record.plan.scenario.name, record, [_make_suite(record, limits)])

        return Conclusion(folder, record, write, lambda report: print_limits(record, report))

    def read_baselines(self, folder: Path) -> Sequence[tuple[str, Baseline]]:
        """Return the rates that were sustained."""
        return [(str(folder), read_limit_baseline(folder))]


def _without_probes(limit: Limit) -> dict[str, object]:
    return {key: value for key, value in asdict(limit).items() if key != "probes"}


def _make_page(record: LimitRecord, limits: Sequence[Limit]) -> Page:
    plan = record.plan
    is_over = record.status == "completed"
    share = describe_held_share(limits)
    variant = f", variant {plan.scenario.variant}" if plan.scenario.variant else ""
    return Page(
        kicker=f"limit · {plan.scenario.name}{variant} · {plan.slo.text}",
        title=plan.scenario.summary,
        subject=f"{plan.scenario.name}{variant}",
        sentences=[*(describe_limit(limit, plan, is_over=is_over) for limit in limits), *([share] if share else [])]
        or ["Nothing was tried."],
        tiles=[_make_tile(limit) for limit in limits],
        tables=[
            PageTable(
                title=f"Horizon {limit.horizon}",
                hint=f"Each row is a run of {plan.duration_s:g} s. A resource is exhausted when its use reaches its threshold.",
                headers=(*PROBE_HEADERS[:1], plan.slo.metric, *PROBE_HEADERS[1:]),
                rows=list_probe_rows(limit),
            )
            for limit in limits
        ],
        command=plan.command,
    )


def _make_tile(limit: Limit) -> OutcomeTile:
    low, high = limit.interval.low, limit.interval.high
    if low is not None and high is not None:
        figure = f"{low:g} to {high:g}"
    else:
        figure = f"above {low:g}" if low is not None else f"below {high:g}" if high is not None else "unknown"
    return OutcomeTile(label=f"highest rate, horizon {limit.horizon}", figure=figure, note="jobs/s that the queue sustains")


def _make_suite(record: LimitRecord, limits: Sequence[Limit]) -> TestSuite:
    suite = TestSuite("stallbench.limit")
    found = {limit.horizon: limit for limit in limits}
    for horizon in record.plan.horizons:
        limit = found.get(horizon)
        is_known = limit is not None and limit.interval.is_bounded and record.status == "completed"
        reason = (
            describe_limit(limit, record.plan, is_over=record.status == "completed")
            if limit
            else f"the search is {record.status}"
        )
        name = f"the limit with the horizon {horizon} has a lower and an upper end"
        suite.add_testcase(make_case(name, f"limit.{record.plan.scenario.name}", "pass" if is_known else "unknown", reason))
    return suite


KIND = LimitKind()
