"""Writes a run's page, its summary and its JUnit file: fills the templates with what the other modules of this package read from the tables."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from stallbench.base.duration import format_duration
from stallbench.base.storage.address import AnyPath
from stallbench.base.storage.atomic_file import replace_file
from stallbench.libraries.settings import format_settings
from stallbench.report.charts import as_script_data, cut_windows, group_order, list_rounds, make_charts
from stallbench.report.junit import write_junit
from stallbench.report.movements import with_movements
from stallbench.report.outcome_text import (
    describe_outcome,
    describe_run,
    explain_verdict,
    find_ending,
    find_help,
    list_tiles,
    name_verdict,
    start_sentence,
)
from stallbench.report.rows import add_up_errors, find_highlights, list_distributions, list_phase_rows, list_recoveries
from stallbench.report.run_index import name_queue, write_run_entry
from stallbench.report.samples import find_unread_logs, read_deadlocks, read_plans, read_vacuum
from stallbench.report.templates import format_clock, open_template
from stallbench.report.timeline import list_timeline, read_vacuums
from stallbench.run.record import RunRecord
from stallbench.scenario.command import format_run_command
from stallbench.verdicts import RunTables, Verdict
from stallbench.verdicts.duplicates import count_repeated
from stallbench.verdicts.host import describe_busy_host

_SHOWN_BANDS = 4


def make_report(run: RunTables, verdict: Verdict) -> AnyPath:
    """Write ``report.html``, ``junit.xml``, ``summary.md`` and the run's row of the index into its folder; returns the first."""
    content = _list_content(run, verdict)
    replace_file(run.folder / "summary.md", open_template("summary.md.j2", autoescape=False).render(content))
    write_junit(run.folder / "junit.xml", run, verdict)
    page = run.folder / "report.html"
    replace_file(page, open_template("report.html.j2", autoescape=True).render(content))
    write_run_entry(run, verdict)
    return page


def _list_content(run: RunTables, verdict: Verdict) -> dict[str, object]:
    """Return what the templates show."""
    record = run.record
    start_ns = next((phase.start_ns for phase in record.phases if phase.start_ns), 0)
    charts, figures = make_charts(run)
    vacuums = read_vacuums(run.folder / "samples" / "vacuum.csv", start_ns)
    return {
        "run": record,
        "verdict": verdict,
        "kicker": _describe_kind(record),
        "notes": list(_list_notes(run, verdict)),
        "outcome": describe_outcome(record, verdict),
        "headline": describe_run(record, verdict),
        "verdict_name": name_verdict(record, verdict),
        "said": start_sentence(f"{reason}.") if (reason := explain_verdict(record, verdict)) else "",
        "ending": find_ending(record, verdict),
        "help": find_help(record, verdict),
        "tiles": list_tiles(verdict),
        "bands": _name_bands([band["name"] for band in charts["bands"]]),
        "timeline": list_timeline(charts, verdict.attribution.holders, vacuums),
        "chart_data": as_script_data(charts),
        "figures": with_movements(figures, charts, cut_windows(run), vacuums),
        "distributions": list_distributions(run),
        "trend": verdict.attribution.trend,
        "phase_names": [phase.name for phase in record.started_phases],
        "phase_rows": list_phase_rows(run),
        "highlights": find_highlights(run),
        "conservation": run["conservation"].to_dict("records"),
        "duplicates": run.first("duplicates", 20).to_dict("records"),
        "duplicate_count": count_repeated(run).jobs,
        "order": _with_shares(group_order(run)),
        "rounds": _with_shares(list_rounds(run)),
        "recoveries": list_recoveries(run),
        "errors": add_up_errors(run["errors"]),
        "command": _command(record),
        "library_settings": format_settings(record.queue.library.settings) if record.queue.library else "",
        "vacuum": read_vacuum(run.folder / "samples" / "vacuum.csv"),
        "deadlocks": read_deadlocks(*(run.folder / "samples" / name for name in ("innodb_deadlocks.csv", "deadlocks.csv"))),
        "unread_logs": find_unread_logs(run.folder / "samples" / "deadlocks.csv"),
        "deadlock_count": run.metric("deadlocks", "count", None),
        "expected_round": _find_expected_round(run),
        "plans": read_plans(run.folder / "samples" / "plan.csv"),
    }


def _describe_kind(record: RunRecord) -> str:
    """Return what was run, on what, and when: the line above the headline."""
    variant = f", variant {record.scenario.variant}" if record.scenario.variant else ""
    began = format_clock(record.phases[0].start_ns)
    return f"{record.scenario.name}{variant} · {name_queue(record)} · {began}"


def _list_notes(run: RunTables, verdict: Verdict) -> Iterator[str]:
    """Yield what a reader must know before relying on a figure."""
    record = run.record
    yield from record.notes
    if busy := describe_busy_host(run):
        yield busy
    if verdict.status != "completed":
        reason = record.reason or "no reason was recorded"
        yield f"The run was {verdict.status}: {reason}. This page shows what was recorded until then."


def _name_bands(names: Sequence[str]) -> str:
    more = f" and {len(names) - _SHOWN_BANDS} more" if len(names) > _SHOWN_BANDS else ""
    return ", ".join(names[:_SHOWN_BANDS]) + more


def _with_shares(groups: Sequence[tuple[str, int]]) -> list[tuple[str, int, str]]:
    """Return each group with its share of all, in percent."""
    total = sum(count for _, count in groups)
    return [(label, count, "100" if count == total else f"{100 * count / total:.2f}") for label, count in groups]


def _find_expected_round(run: RunTables) -> float | None:
    """Return the article's expected round for the queue's window; none if it has none."""
    window = run.record.queue.window
    return expected_round(window) if window else None


def _command(record: RunRecord) -> str:
    scenario = record.scenario
    if record.is_observation:
        return f"stallbench observe --dsn ADDRESS --for {format_duration(scenario.phases[0].duration_s)} --report"
    return format_run_command(scenario)


def expected_round(window: int) -> float:
    """Return ``E[X]`` of 'Laravel queueing optimization' (2017) for N workers that each choose one of the first N jobs.

    Its sum over all rounds is that of a geometric distribution: a job is passed over by all N with ``((N-1)/N)^N``.
    """
    return 1 / (1 - ((window - 1) / window) ** window)
