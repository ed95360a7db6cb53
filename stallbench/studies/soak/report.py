"""A soak's pages: one HTML page with the drift, the curves over the cycles and links to each cycle's page, and Markdown for a pull request."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TypedDict

from stallbench.base.storage.atomic_file import replace_file
from stallbench.records.nanoseconds import NS_PER_S
from stallbench.report import open_template
from stallbench.report.charts import PhaseBand, as_script_data
from stallbench.run.record import RunRecord, read_record
from stallbench.studies.comparison.formatting import format_p
from stallbench.studies.regressions import describe_outcome as describe_regressions
from stallbench.studies.soak.disk import format_bytes, measure_bytes
from stallbench.studies.soak.drift import FEWEST_CYCLES, Drift
from stallbench.studies.soak.folder import SoakFolder
from stallbench.studies.soak.plan import format_command
from stallbench.studies.soak.record import SoakRecord
from stallbench.verdicts.baseline.statistics import CONFIDENCE_LEVEL
from stallbench.verdicts.expectations import format_value

_CHARTS = {
    "Claim time, p95, ms": "claim_ms.p95 in ",
    "Claim time, p50, ms": "claim_ms.p50 in ",
    "Size of the tables, bytes": "table_bytes.last in ",
    "Size of the indexes, bytes": "index_bytes.last in ",
    "Dead tuples at the end": "dead_tuples.last in ",
    "History list length at the end": "history_list_length.last in ",
    "Jobs left at the end": "depth.last in ",
    "Memory (resident set), MiB": "memory of ",
    "Private memory, MiB": "private memory of ",
}
"""By title: how the names of its figures begin."""


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
    status: str
    left_over: int
    resting: str
    bytes: str
    records_removed: bool
    reason: str


class Series(TypedDict):
    """A line of a chart: a value for each point, none where it is interrupted."""

    label: str
    values: list[float | None]


class CycleChart(TypedDict):
    """A chart over the cycles."""

    title: str
    series: list[Series]


class Curves(TypedDict):
    """What the charts draw."""

    t_s: list[float]
    """Of each point, in ``unit``."""
    unit: str
    phases: list[PhaseBand]
    """Sets of servers, in ``unit``."""
    bands: list[PhaseBand]
    """Cycles that did not pass, in ``unit``."""
    charts: list[CycleChart]


def make_pages(folder: SoakFolder, record: SoakRecord, drifts: Mapping[str, Drift | None]) -> None:
    """Write ``report.html`` and ``summary.md`` into the soak's folder."""
    content = {
        "record": record,
        "verdict": record.verdict,
        "reason": describe_outcome(record),
        "notes": list(find_notes(record)),
        "drift": [format_drift(name, drift) for name, drift in drifts.items() if drift],
        "unpaired": [name for name, drift in drifts.items() if drift is None],
        "adjustment": describe_adjustment(drifts),
        "level": f"{CONFIDENCE_LEVEL * 100:.0f} %",
        "outcome": describe_regressions(record.regressions),
        "cycles": list(_list_cycles(folder, record)),
        "command": format_command(record.scenario, record.for_s, record.keep),
        "disk": format_disk(folder, record),
        "first_cycle": _read_first_cycle(folder, record),
    }
    replace_file(folder.path / "summary.md", open_template("soak.md.j2", autoescape=False).render(content))
    page = open_template("soak.html.j2", autoescape=True).render(**content, chart_data=as_script_data(_read_curves(record)))
    replace_file(folder.path / "report.html", page)


def describe_outcome(record: SoakRecord) -> str:
    """Return the outcome of the cycles in one sentence."""
    completed = record.completed
    if not completed:
        return "No cycle was completed."
    failed = [cycle for cycle in completed if cycle.verdict != "pass"]
    if not failed:
        return f"All {len(completed)} cycles pass."
    first = failed[0]
    return (
        f"{len(completed) - len(failed)} of {len(completed)} cycles pass; the first that does not is cycle {first.number} "
        f"({first.verdict}): {first.reason}"
    )


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
            status=cycle.status,
            left_over=cycle.left_over,
            resting=f"{cycle.resting_s:.0f}",
            bytes=format_bytes(cycle.bytes or measure_bytes(page.parent)),
            records_removed=cycle.records_removed,
            reason=cycle.reason,
        )


def _read_curves(record: SoakRecord) -> Curves:
    """Return what the charts draw: one point per cycle, and an empty one between cycles on different servers."""
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
    charts: list[CycleChart] = []
    for title, beginning in _CHARTS.items():
        names = dict.fromkeys(name for cycle in completed for name in cycle.figures if name.startswith(beginning))
        series: list[Series] = [
            {
                "label": name.removeprefix(beginning).removesuffix(", MiB"),
                "values": [
                    None if index is None or name not in completed[index].figures else completed[index].figures[name].value
                    for index in indexes
                ],
            }
            for name in names
        ]
        if series:
            charts.append({"title": title, "series": series})
    return {"t_s": t_minutes, "unit": "min", "phases": server_sets, "bands": bad, "charts": charts}


def _read_first_cycle(folder: SoakFolder, record: SoakRecord) -> RunRecord | None:
    """Return the record of the first cycle whose folder still exists."""
    for cycle in record.runs:
        path = folder.cycle(cycle.number).record
        if path.is_file():
            return read_record(path)
    return None
