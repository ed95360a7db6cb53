"""A soak's pages: one HTML page with the drift, the curves over the cycles and links to each cycle's page, and Markdown for a pull request."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from stallbench.base.number_text import format_bytes, format_value
from stallbench.base.storage.atomic_file import replace_file
from stallbench.records.nanoseconds import NS_PER_S
from stallbench.report import open_template
from stallbench.report.charts import Chart, ChartData, Figure, Heading, PhaseBand, Series, as_script_data, heading_of, style_of
from stallbench.report.outcome_text import OutcomeTile
from stallbench.report.run_index import IndexEntry, name_queue, write_entry
from stallbench.studies.comparison.formatting import format_p
from stallbench.studies.page import describe_where, read_first_record
from stallbench.studies.regressions import word_regressions
from stallbench.studies.soak.disk import measure_bytes
from stallbench.studies.soak.drift import FEWEST_CYCLES, Drift
from stallbench.studies.soak.folder import SoakFolder
from stallbench.studies.soak.plan import format_command
from stallbench.studies.soak.record import SoakRecord
from stallbench.verdicts.baseline.statistics import CONFIDENCE_LEVEL

_HOUR_S = 3600
_SHOWN_DRIFTS = 3
_CHARTS = {
    "Claim time, p95, ms": "claim_ms.p95",
    "Claim time, p50, ms": "claim_ms.p50",
    "Size of the tables, bytes": "table_bytes.last",
    "Size of the indexes, bytes": "index_bytes.last",
    "Dead tuples at the end": "dead_tuples.last",
    "History list length at the end": "history_list_length.last",
    "Jobs left at the end": "depth.last",
    "Memory (resident set), MiB": "memory_bytes",
    "Private memory, MiB": "private_bytes",
}
"""By title: the metric of its figures."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DriftRow:
    """A figure's drift, as text."""

    name: str
    level: str
    slope: str
    interval: str
    relative: str
    cycles: str
    p: str
    is_significant: bool | None
    significance: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CycleRow:
    """A cycle."""

    number: int
    page: str
    """Address of its report, relative to the soak's; empty if there is none."""
    began: str
    verdict: str | None
    """None if it was not completed."""
    verdict_name: str
    status: str
    left_over: int
    resting: str
    bytes: str
    records_removed: bool
    reason: str


def make_pages(folder: SoakFolder, record: SoakRecord, drifts: Mapping[str, Drift | None]) -> None:
    """Write ``report.html``, ``summary.md`` and the row of the index into the soak's folder."""
    first = read_first_record(folder.cycle(cycle.number).path for cycle in record.runs)
    variant = f", variant {record.scenario.variant}" if record.scenario.variant else ""
    words = record.words
    content = {
        "record": record,
        "kicker": f"soak · {record.scenario.name}{variant}{describe_where(first)}",
        "said": record.progress,
        "tiles": _list_tiles(record, drifts),
        "words": words,
        "notes": list(find_notes(record)),
        "drift": [format_drift(name, drift) for name, drift in drifts.items() if drift],
        "unpaired": [name for name, drift in drifts.items() if drift is None],
        "adjustment": describe_adjustment(drifts),
        "level": f"{CONFIDENCE_LEVEL * 100:.0f} %",
        "compared": word_regressions(record.regressions),
        "cycles": list(_list_cycles(folder, record)),
        "command": format_command(record.scenario, record.for_s, record.keep),
        "disk": format_disk(folder, record),
        "first_cycle": first,
    }
    replace_file(folder.path / "summary.md", open_template("soak.md.j2", autoescape=False).render(content))
    charts, figures = _make_charts(record)
    page = open_template("soak.html.j2", autoescape=True).render(**content, chart_data=as_script_data(charts), figures=figures)
    replace_file(folder.path / "report.html", page)

    entry = IndexEntry(
        kind="soak",
        scenario=record.scenario.name,
        variant=record.scenario.variant or "",
        queue=name_queue(first) if first else "",
        verdict=words.result,
        verdict_name=words.name,
        outcome=f"{words.sentence} {describe_adjustment(drifts)}".strip(),
    )
    write_entry(folder.path, entry)


def _list_tiles(record: SoakRecord, drifts: Mapping[str, Drift | None]) -> list[OutcomeTile]:
    completed = record.completed
    passed = sum(cycle.verdict == "pass" for cycle in completed)
    drifting = [name for name, drift in drifts.items() if drift is not None and drift.is_significant]
    spent_s = sum(cycle.spent_s for cycle in completed)
    spent = f"{spent_s / _HOUR_S:.1f} hours" if spent_s >= _HOUR_S else f"{spent_s / 60:.0f} minutes"
    return [
        OutcomeTile(label="cycles without a failure", figure=f"{passed} of {len(completed)}", note=f"in {spent}"),
        OutcomeTile(
            label="figures that drift",
            figure=f"{len(drifting)} of {len(drifts)}",
            note=", ".join(drifting[:_SHOWN_DRIFTS]) or "significantly",
        ),
        OutcomeTile(
            label="jobs left over", figure=f"{sum(cycle.left_over for cycle in completed):,}", note="at the ends of all cycles"
        ),
    ]


def find_notes(record: SoakRecord) -> Iterator[str]:
    """Yield what a reader must know before relying on a figure."""
    if record.is_running:
        yield f"The soak is running: {len(record.completed)} of {record.planned_cycles} cycles are done."
    elif record.status != "completed":
        reason = record.reason or "the bench was killed"
        yield f"The soak is not complete: {reason}. The figures are of the cycles done so far; --continue continues it."
    yield from record.notes
    if len(record.completed) < FEWEST_CYCLES:
        yield f"Not enough cycles for confidence intervals: at least {FEWEST_CYCLES} are needed, and there are {len(record.completed)}."


def format_drift(name: str, drift: Drift) -> DriftRow:
    """Return the text of a drift."""
    relative = f"{_signed(drift.slope / drift.level * 100)} %" if drift.level else "–"
    return DriftRow(
        name=name,
        level=format_value(drift.level),
        slope=_signed(drift.slope),
        interval="–" if drift.low is None or drift.high is None else f"{_signed(drift.low)} .. {_signed(drift.high)}",
        relative=relative,
        cycles=f"{drift.cycles}" + (f" in {drift.segments} segments" if drift.segments > 1 else ""),
        p=format_p(drift.adjusted_p),
        is_significant=drift.is_significant,
        significance=_describe_significance(drift),
    )


def describe_adjustment(drifts: Mapping[str, Drift | None]) -> str:
    """Return how many figures drift significantly, and how that is decided; nothing if no figure has a p-value."""
    tested = [drift for drift in drifts.values() if drift is not None and drift.p is not None]
    if not tested:
        return ""
    significant = sum(bool(drift.is_significant) for drift in tested)
    alone = sum(bool(drift.is_significant_alone) for drift in tested) - significant
    return (
        f"{significant} of {len(tested)} figures drift significantly: their p-value, adjusted with Holm over {len(tested)} figures, is "
        f"below {1 - CONFIDENCE_LEVEL:.2g}. {alone} more would if no other figure were examined."
    )


def _describe_significance(drift: Drift) -> str:
    direction = "rises" if drift.slope > 0 else "falls"
    if drift.is_significant is None:
        return "too few cycles"
    if drift.is_significant:
        return direction
    return f"{direction}, only unadjusted" if drift.is_significant_alone else "no"


def format_disk(folder: SoakFolder, record: SoakRecord) -> str:
    """Return in one sentence how much space the soak takes, and what was removed."""
    removed_cycles = sum(cycle.records_removed for cycle in record.runs)
    removed = f"; the records of {removed_cycles} cycles were removed after their tables were made" if removed_cycles else ""
    return f"The soak's folder takes {format_bytes(measure_bytes(folder.path))}, of {format_bytes(record.bound_bytes)} at most{removed}."


def _signed(value: float) -> str:
    return f"{'+' if value > 0 else '-' if value < 0 else ''}{format_value(abs(value))}"


def _list_cycles(folder: SoakFolder, record: SoakRecord) -> Iterator[CycleRow]:
    for cycle in record.runs:
        page = folder.cycle(cycle.number).path / "report.html"
        yield CycleRow(
            number=cycle.number,
            page=str(page.relative_to(folder.path)) if page.is_file() else "",
            began=datetime.fromtimestamp(cycle.start_ns / NS_PER_S, UTC).strftime("%Y-%m-%d %H:%M:%S"),
            verdict=cycle.verdict if cycle.status == "completed" else None,
            verdict_name=cycle.verdict_name,
            status=cycle.status,
            left_over=cycle.left_over,
            resting=f"{cycle.pause_s:.0f}",
            bytes=format_bytes(cycle.bytes or measure_bytes(page.parent)),
            records_removed=cycle.records_removed,
            reason=cycle.reason,
        )


def _make_charts(record: SoakRecord) -> tuple[ChartData, list[Figure]]:
    """Return what the charts draw, and each of them as text: one point per cycle, and an empty one between cycles on different servers."""
    indexes: list[int | None] = []
    t_minutes: list[float] = []
    server_sets: list[PhaseBand] = []
    bad: list[PhaseBand] = []
    spent_s = 0.0
    completed = record.completed
    for index, cycle in enumerate(completed):
        minute = spent_s / 60
        spent_s += cycle.spent_s
        if index and cycle.server_set != completed[index - 1].server_set:
            indexes.append(None)
            t_minutes.append((t_minutes[-1] + minute) / 2)
        if not server_sets or server_sets[-1]["name"] != f"servers {cycle.server_set}":
            server_sets.append({"name": f"servers {cycle.server_set}", "from_s": minute, "to_s": minute})
        server_sets[-1]["to_s"] = spent_s / 60
        if cycle.verdict != "pass":
            bad.append({"name": f"cycle {cycle.number}", "from_s": minute, "to_s": spent_s / 60})
        indexes.append(index)
        t_minutes.append(minute)
    charts: list[Chart] = []
    figures: list[Figure] = []
    for title, metric in _CHARTS.items():
        places = {
            name: figure.phase or figure.process
            for cycle in completed
            for name, figure in cycle.figures.items()
            if figure.metric == metric
        }
        series: list[Series] = []
        for line, (name, place) in enumerate(places.items()):
            values = [
                None if index is None or name not in completed[index].figures else completed[index].figures[name].value
                for index in indexes
            ]
            hue, dash = style_of(line)
            series.append(Series(label=place, hue=hue, dash=dash, values=values))
        if series:
            charts.append(Chart(title=title, unit="", close=True, height=170, series=series))
            figures.append(_make_figure(title, series))
    return ChartData(t_s=t_minutes, unit="min", phases=server_sets, bands=bad, charts=charts), figures


def _make_figure(title: str, series: Sequence[Series]) -> Figure:
    rows = []
    for index, one in enumerate(series):
        values = [value for value in one["values"] if value is not None]
        rows.append((heading_of(index, one), [format_value(each) for each in (values[0], min(values), max(values), values[-1])]))
    columns = [Heading(text=text) for text in ("first cycle", "lowest", "highest", "last cycle")]
    return Figure(title=title, meaning="", corner="of", columns=columns, rows=rows)
