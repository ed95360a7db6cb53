"""Writes a run's page, its summary and its JUnit file: fills the templates with what the other modules of this package read from the tables."""

from __future__ import annotations

from datetime import UTC, datetime
from functools import cache

import jinja2
from markupsafe import Markup

from stallbench import PROJECT
from stallbench.base.duration import format_duration
from stallbench.base.storage.address import AnyPath
from stallbench.base.storage.atomic_file import replace_file
from stallbench.libraries.settings import format_settings
from stallbench.records.nanoseconds import NS_PER_S
from stallbench.report.charts import make_chart_data
from stallbench.report.junit import write_junit
from stallbench.report.markdown import escape_markdown, format_code
from stallbench.report.outcome_text import describe_outcome, describe_run, describe_verdict, find_ending, find_help, list_tiles
from stallbench.report.rows import add_up_errors, find_highlights, list_phase_rows, list_recoveries
from stallbench.report.samples import find_unread_logs, read_deadlocks, read_plans, read_vacuum
from stallbench.run.record import RunRecord
from stallbench.scenario.command import format_run_command
from stallbench.verdicts import RunTables, Verdict
from stallbench.verdicts.duplicates import count_repeated
from stallbench.verdicts.expectations import format_value
from stallbench.visible_text import make_visible

TEMPLATES = PROJECT / "reports" / "templates"


def make_report(run: RunTables, verdict: Verdict) -> AnyPath:
    """Write ``report.html``, ``junit.xml`` and ``summary.md`` into the run's folder; returns the first."""
    replace_file(run.folder / "summary.md", _render("summary.md.j2", run, verdict, autoescape=False))
    write_junit(run.folder / "junit.xml", run, verdict)
    page = run.folder / "report.html"
    replace_file(page, _render("report.html.j2", run, verdict, autoescape=True))
    return page


def open_template(name: str, *, autoescape: bool) -> jinja2.Template:
    """Return a template of ``reports/templates`` with the filters ``figure``, ``came`` and ``clock``; a missing variable is an error.

    Without ``autoescape`` it is of Markdown. Every text that it shows is escaped; the filter ``code`` makes code of it.
    """
    return _environment(autoescape).get_template(name)


@cache
def _environment(autoescape: bool) -> jinja2.Environment:
    """Return the environment of all pages of this process, which compiles each template once: a soak makes a page for each cycle."""
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(TEMPLATES),
        autoescape=autoescape,  # noqa: S701 - off for Markdown
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
    )
    environment.finalize = _show if autoescape else _show_in_markdown
    environment.filters["code"] = format_code
    environment.filters["figure"] = lambda value: "no data" if value is None else format_value(value)
    environment.filters["came"] = lambda value, missing: missing if value is None else format_value(value)
    environment.filters["clock"] = _format_clock
    return environment


def _render(template: str, run: RunTables, verdict: Verdict, *, autoescape: bool) -> str:
    return open_template(template, autoescape=autoescape).render(
        run=run.record,
        verdict=verdict,
        outcome=describe_outcome(run.record, verdict),
        headline=describe_run(run.record, verdict),
        said=describe_verdict(run.record, verdict),
        ending=find_ending(run.record, verdict),
        help=find_help(run.record, verdict),
        tiles=list_tiles(verdict),
        trend=verdict.attribution.trend,
        phase_names=[phase.name for phase in run.record.started_phases],
        phase_rows=list_phase_rows(run),
        highlights=find_highlights(run),
        conservation=run["conservation"].to_dict("records"),
        duplicates=run.first("duplicates", 20).to_dict("records"),
        duplicate_count=count_repeated(run).jobs,
        recoveries=list_recoveries(run),
        errors=add_up_errors(run["errors"]),
        chart_data=make_chart_data(run, verdict),
        command=_command(run.record),
        library_settings=format_settings(run.record.queue.library.settings) if run.record.queue.library else "",
        vacuum=read_vacuum(run.folder / "samples" / "vacuum.csv"),
        deadlocks=read_deadlocks(*(run.folder / "samples" / name for name in ("innodb_deadlocks.csv", "deadlocks.csv"))),
        unread_logs=find_unread_logs(run.folder / "samples" / "deadlocks.csv"),
        deadlock_count=run.metric("deadlocks", "count", None),
        expected_round=_find_expected_round(run),
        plans=read_plans(run.folder / "samples" / "plan.csv"),
    )


def _find_expected_round(run: RunTables) -> float | None:
    """Return the article's expected round for the queue's window; none if it has none."""
    window = run.record.queue.window
    return expected_round(window) if window else None


def _command(record: RunRecord) -> str:
    scenario = record.scenario
    if record.is_observation:
        return f"stallbench observe --dsn ADDRESS --for {format_duration(scenario.phases[0].duration_s)} --report"
    return format_run_command(scenario)


def _show(value: object) -> object:
    """Make visible what a page of HTML shows; where it has to be, it is escaped afterwards."""
    if isinstance(value, Markup):
        return Markup(make_visible(value))  # noqa: S704 - it was marked as safe by the template
    return make_visible(value) if isinstance(value, str) else value


def _show_in_markdown(value: object) -> object:
    return escape_markdown(value) if isinstance(value, str) else value


def _format_clock(t_ns: int | None) -> str:
    return datetime.fromtimestamp(t_ns / NS_PER_S, UTC).strftime("%Y-%m-%d %H:%M:%S UTC") if t_ns else "never"


def expected_round(window: int) -> float:
    """Return ``E[X]`` of 'Laravel queueing optimization' (2017) for N workers that each choose one of the first N jobs.

    Its sum over all rounds is that of a geometric distribution: a job is passed over by all N with ``((N-1)/N)^N``.
    """
    return 1 / (1 - ((window - 1) / window) ** window)
