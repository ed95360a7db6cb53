"""A comparison's pages: one HTML file that opens anywhere, and Markdown for a pull request."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypedDict

import pandas as pd

from stallbench.base.storage.atomic_file import replace_file
from stallbench.discovery import LIBRARY_PREFIX
from stallbench.measures import MEASURES
from stallbench.report import open_template
from stallbench.report.charts import InjectionBand, PhaseBand, as_script_data, cut_windows, list_injections, list_phases
from stallbench.run.record import RunRecord, read_record
from stallbench.scenario.command import argument_of, list_changes, list_variant
from stallbench.shell_command import format_shell_command
from stallbench.studies.comparison.formatting import (
    describe_adjustment,
    describe_agreement,
    describe_significance,
    format_difference,
    format_median,
    format_p,
    format_spread,
    make_scenario_table,
)
from stallbench.studies.comparison.notes import find_notes
from stallbench.studies.comparison.record import ComparisonFolder, ComparisonRecord
from stallbench.studies.comparison.results import Results
from stallbench.studies.comparison.standings import Standing
from stallbench.studies.regressions import describe_outcome
from stallbench.verdicts.baseline.statistics import CONFIDENCE_LEVEL
from stallbench.verdicts.check import RunTables

_CURVES = (("claim_ms", "p95"), ("depth", ""), ("dead_tuples", ""), ("completed", "rate"))
"""What each chart draws: a measure, and the statistic of each second; empty for a sample."""
_MOST_POINTS = 20_000
"""In all curves of one chart together."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StandingRow:
    """A variant in one subject, as text; empty where there is nothing to say."""

    name: str
    rank: int | None
    median: str
    spread: str
    rounds: int
    difference: str
    p: str
    significance: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RankingRow:
    """A variant in the subject that all are ranked by, and how it is assessed."""

    standing: StandingRow
    summary: str
    outcome: str
    """Of its assessment; empty if it was not assessed."""
    reason: str
    unsafe: str
    """Why it is not safe; empty if nothing was found."""
    published: Sequence[tuple[float | None, int | None]]
    """Its figure and its rank in each published column; none if it is not there."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UpgradeRow:
    """A step from one version to another, as text."""

    title: str
    change: str
    difference: str
    p: str
    answer: str


class ComparedChart(TypedDict):
    """A chart with a curve for each variant."""

    title: str
    column: str
    """Of the table ``windows``."""


class Curves(TypedDict):
    """What the charts draw."""

    charts: list[ComparedChart]
    t_s: list[int]
    variants: Sequence[str]
    columns: dict[str, dict[str, list[float | None]]]
    """By the name of the column, then of the variant: the median of its runs at each of ``t_s``."""
    phases: list[PhaseBand]
    bands: list[InjectionBand]


def make_pages(folder: ComparisonFolder, record: ComparisonRecord, results: Results) -> None:
    """Write ``report.html`` and ``summary.md`` into the comparison's folder."""
    content = {
        "record": record,
        "ranked": results.ranked.subject,
        "ranking": list(_ranking_rows(record, results)),
        "scenario_table": make_scenario_table(record, results),
        "agreements": [describe_agreement(agreement) for agreement in results.agreements],
        "groups": [
            (each.subject, [_format_standing(name, standing) for name, standing in each.standings.items()])
            for each in results.compared
        ],
        "notes": list(find_notes(record, results)),
        "recommendation": results.recommendation,
        "regressions": record.regressions,
        "outcome": describe_outcome(record.regressions),
        "kind": "version" if record.versions else "variant",
        "upgrades": list(_upgrade_rows(results)),
        "has_assessments": results.has_assessments,
        "adjustment": describe_adjustment(results),
        "reference": record.names[0],
        "significance": f"{1 - CONFIDENCE_LEVEL:.2g}",
        "level": f"{CONFIDENCE_LEVEL * 100:.0f} %",
        "first_run": _read_first_run(folder, record),
        "command": format_command(record),
    }
    replace_file(folder.path / "summary.md", open_template("comparison.md.j2", autoescape=False).render(content))
    chart_data = as_script_data(_read_curves(record, folder.runs))
    page = open_template("comparison.html.j2", autoescape=True).render(**content, chart_data=chart_data)
    replace_file(folder.path / "report.html", page)


def format_command(record: ComparisonRecord) -> str:
    """Return the command that repeats the comparison."""
    scenario = record.scenario
    repeated = ["--repeat", record.rounds, "--seed", record.seed, *list_changes((*scenario.changes, *scenario.measured))]
    if record.versions:
        versions = [*list_variant(scenario.variant), "--versions", record.versions]
        return format_shell_command(["stallbench", "matrix", argument_of(scenario.name, scenario.file), *versions, *repeated])
    libraries = [each.removeprefix(LIBRARY_PREFIX) for each in record.names if each.startswith(LIBRARY_PREFIX)]
    variants = [each for each in record.names if not each.startswith(LIBRARY_PREFIX)]
    chosen = [
        *(["--variants", ",".join(variants)] if variants else []),
        *(["--libraries", ",".join(libraries)] if libraries else []),
        *(["--load", "own"] if record.load == "own" else []),
    ]
    return format_shell_command(["stallbench", "compare", argument_of(scenario.name, scenario.file), *chosen, *repeated])


def _ranking_rows(record: ComparisonRecord, results: Results) -> Iterator[RankingRow]:
    """Yield a row for each variant, the best first."""
    summaries = {variant.name: variant.summary for variant in record.variants}
    for name in results.ranked.by_rank:
        assessment = results.assessments.get(name)
        yield RankingRow(
            standing=_format_standing(name, results.ranked.standings[name]),
            summary=summaries[name],
            outcome=(assessment.outcome if assessment else None) or "",
            reason=assessment.reason if assessment else "",
            unsafe=results.unsafe.get(name, ""),
            published=[
                (record.published[agreement.where].get(name), agreement.ranks.get(name)) for agreement in results.agreements
            ],
        )


def _upgrade_rows(results: Results) -> Iterator[UpgradeRow]:
    for each in results.upgrades:
        yield UpgradeRow(
            title=each.title,
            change=each.change,
            difference=format_difference(each.difference),
            p=format_p(each.difference.adjusted_p if each.difference else None),
            answer=each.answer,
        )


def _format_standing(name: str, standing: Standing) -> StandingRow:
    return StandingRow(
        name=name,
        rank=standing.rank,
        median=format_median(standing),
        spread=format_spread(standing),
        rounds=len(standing.values),
        difference=format_difference(standing.difference),
        p=format_p(standing.difference.adjusted_p if standing.difference else None),
        significance=describe_significance(standing),
    )


def _read_first_run(folder: ComparisonFolder, record: ComparisonRecord) -> RunRecord | None:
    """Return the record of the first run whose folder still exists."""
    for run in record.runs:
        path = folder.runs / (run.folder or "") / "run.json"
        if run.folder and path.is_file():
            return read_record(path)
    return None


def _read_curves(record: ComparisonRecord, runs: Path) -> Curves:
    """Return what the charts draw.

    Each variant has one curve: the median of its runs at each second. ``runs``: where the folders of the runs are; runs without a folder
    are left out. The bands behind the curves, ``phases`` and ``bands``, are those of the first run of the first variant that has one.
    """
    by_variant: dict[str, list[RunTables]] = {name: [] for name in record.names}
    for run in record.runs:
        if run.status == "completed" and run.folder is not None and (runs / run.folder / "tables").is_dir():
            by_variant[run.variant].append(RunTables(runs / run.folder))
    medians = {name: _find_medians(tables) for name, tables in by_variant.items()}
    last_s = max((int(frame.index.max()) for frame in medians.values() if len(frame)), default=-1)
    step = 1 + (last_s + 1) * len(medians) // _MOST_POINTS
    t_s = range(0, last_s + 1, step)
    first = next((tables[0] for tables in by_variant.values() if tables), None)
    charts = list_charts()
    return {
        "charts": charts,
        "t_s": list(t_s),
        "variants": record.names,
        "columns": {
            chart["column"]: {name: _as_list(frame[chart["column"]].reindex(t_s)) for name, frame in medians.items()}
            for chart in charts
        },
        "phases": list_phases(first.record) if first else [],
        "bands": list_injections(first) if first else [],
    }


def list_charts() -> list[ComparedChart]:
    """Return the title of each chart, and the column of the table ``windows`` that it draws."""
    measures = [(MEASURES[name], statistic) for name, statistic in _CURVES]
    return [
        {
            "title": measure.title_of(statistic) if statistic else measure.label,
            "column": f"{measure.name}_{statistic}" if statistic in measure.by_second else measure.name,
        }
        for measure, statistic in measures
    ]


def _find_medians(repetitions: Sequence[RunTables]) -> pd.DataFrame:
    """Return what the charts draw, by second."""
    columns = [chart["column"] for chart in list_charts()]
    frames = [cut_windows(tables).set_index("t_s")[columns].astype(float) for tables in repetitions]
    if not frames:
        return pd.DataFrame(columns=columns, dtype=float)
    return pd.concat(frames).groupby(level=0).median()


def _as_list(values: pd.Series[float]) -> list[float | None]:
    return [None if pd.isna(value) else float(value) for value in values]
