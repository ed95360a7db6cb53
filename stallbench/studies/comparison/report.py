"""A comparison's pages: one HTML file that opens anywhere, and Markdown for a pull request."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import TypedDict

import pandas as pd

from stallbench.base.number_text import format_value
from stallbench.base.storage.atomic_file import replace_file
from stallbench.discovery import LIBRARY_PREFIX
from stallbench.measures import MEASURES
from stallbench.report import open_template
from stallbench.report.charts import (
    Chart,
    ChartData,
    Figure,
    Heading,
    Series,
    as_script_data,
    cut_windows,
    heading_of,
    list_injections,
    list_phases,
    style_of,
)
from stallbench.report.outcome_text import OutcomeTile
from stallbench.report.run_index import IndexEntry, name_queue, write_entry
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
from stallbench.studies.page import describe_where, read_first_record
from stallbench.studies.regressions import word_regressions
from stallbench.verdicts.baseline.statistics import CONFIDENCE_LEVEL
from stallbench.verdicts.check import RunTables

_CURVES = (("claim_ms", "p95"), ("depth", ""), ("dead_tuples", ""), ("completed", "rate"))
"""What each chart draws: a measure, and the statistic of each second; empty for a sample."""
_SHOWN_BEST = 3
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
    metric: tuple[str, str]
    """Measure and statistic of the table ``phases``: what says the same of a whole phase."""


def make_pages(folder: ComparisonFolder, record: ComparisonRecord, results: Results) -> None:
    """Write ``report.html``, ``summary.md`` and the row of the index into the comparison's folder."""
    first = read_first_record(folder.runs / run.folder for run in record.runs if run.folder)
    words = record.words
    kind = "matrix" if record.versions else "comparison"
    content = {
        "kicker": f"{kind} · {record.scenario.name} · {len(record.names)} {'versions' if record.versions else 'variants'}, interleaved{describe_where(first)}",
        "words": words,
        "tiles": _list_tiles(record, results),
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
        "compared": word_regressions(record.regressions),
        "kind": "version" if record.versions else "variant",
        "upgrades": list(_upgrade_rows(results)),
        "has_assessments": results.has_assessments,
        "adjustment": describe_adjustment(results),
        "reference": record.names[0],
        "significance": f"{1 - CONFIDENCE_LEVEL:.2g}",
        "level": f"{CONFIDENCE_LEVEL * 100:.0f} %",
        "first_run": first,
        "command": format_command(record),
    }
    replace_file(folder.path / "summary.md", open_template("comparison.md.j2", autoescape=False).render(content))
    charts, figures = _make_charts(record, folder.runs)
    page = open_template("comparison.html.j2", autoescape=True).render(
        **content, chart_data=as_script_data(charts), figures=figures
    )
    replace_file(folder.path / "report.html", page)

    entry = IndexEntry(
        kind=kind,
        scenario=record.scenario.name,
        variant=", ".join(record.names),
        queue=name_queue(first) if first else "",
        verdict=words.result,
        verdict_name=words.name,
        outcome=results.recommendation,
    )
    write_entry(folder.path, entry)


def _list_tiles(record: ComparisonRecord, results: Results) -> list[OutcomeTile]:
    """Return the ranked figure of the reference and of the best variants; one that is not safe is none of them."""
    ranked, reference = results.ranked, record.names[0]
    best = [name for name in ranked.by_rank if name != reference and name not in results.unsafe and name not in results.undecided]
    return [
        OutcomeTile(
            label=name,
            figure=format_median(ranked.standings[name]),
            note=f"{ranked.subject.key}{', the reference' if name == reference else ''}",
        )
        for name in [reference, *best[:_SHOWN_BEST]]
    ]


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


def _make_charts(record: ComparisonRecord, runs: Path) -> tuple[ChartData, list[Figure]]:
    """Return what the charts draw, and each of them as text.

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
    charts: list[Chart] = []
    figures: list[Figure] = []
    for compared in list_charts():
        series = [
            _style(index, name, _as_list(frame[compared["column"]].reindex(t_s)))
            for index, (name, frame) in enumerate(medians.items())
        ]
        charts.append(Chart(title=compared["title"], unit=MEASURES[compared["metric"][0]].unit, height=190, series=series))
        figures.append(
            _make_figure(compared, series, by_variant, [phase.name for phase in first.record.started_phases] if first else [])
        )
    data = ChartData(
        t_s=list(t_s),
        phases=list_phases(first.record) if first else [],
        bands=list_injections(first) if first else [],
        charts=charts,
    )
    return data, figures


def _style(index: int, name: str, values: Sequence[float | None]) -> Series:
    """Return the line of a variant; the reference, which is the first, is in the colour of the text."""
    hue, dash = style_of(index - 1) if index else ("ink", "")
    return Series(label=name, hue=hue, dash=dash, values=values)


def _make_figure(
    compared: ComparedChart, series: Sequence[Series], by_variant: Mapping[str, Sequence[RunTables]], phases: Sequence[str]
) -> Figure:
    measure, statistic = MEASURES[compared["metric"][0]], compared["metric"][1]
    rows = []
    for index, one in enumerate(series):
        by_phase = [[tables.metric(measure.name, statistic, phase) for tables in by_variant[one["label"]]] for phase in phases]
        cells = [_format_median([value for value in values if value is not None]) for values in by_phase]
        rows.append((heading_of(index, one), cells))
    return Figure(
        title=compared["title"],
        meaning=f"{measure.label}: {measure.meaning}. In the table: {measure.title_of(statistic)} in each phase, the median of the runs.",
        corner="variant",
        columns=[Heading(text=phase) for phase in phases],
        rows=rows,
        is_wide=True,
    )


def _format_median(values: Sequence[float]) -> str:
    return format_value(median(values)) if values else "no data"


def list_charts() -> list[ComparedChart]:
    """Return the title of each chart, and the column of the table ``windows`` that it draws."""
    measures = [(MEASURES[name], statistic) for name, statistic in _CURVES]
    return [
        {
            "title": measure.title_of(statistic) if statistic else measure.label,
            "column": f"{measure.name}_{statistic}" if statistic in measure.by_second else measure.name,
            "metric": (measure.name, statistic or "max"),
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
