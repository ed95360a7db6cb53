"""A soak's own page: what drifts, the curves from cycle to cycle, and the way to each cycle's page; and Markdown for a pull request."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Any

from stallbench.atomic_file import replace_file
from stallbench.report import open_template
from stallbench.report.charts import as_script_data
from stallbench.run.record import read_record
from stallbench.soak.disk import format_bytes, measure_bytes
from stallbench.soak.drift import FEWEST_CYCLES, LEVEL, Drift
from stallbench.soak.folder import SoakFolder
from stallbench.soak.plan import format_command
from stallbench.soak.record import SoakRecord
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


def make_pages(folder: SoakFolder, record: SoakRecord, drifts: Mapping[str, Drift | None], *, goes_on: bool) -> None:
    """Write ``report.html`` and ``summary.md`` into the soak's folder. ``goes_on``: whether there are cycles to come."""
    content = {
        "record": record,
        "verdict": "pass" if record.exit_code == 0 else "fail" if record.first_failed else "unknown",
        "reason": describe_outcome(record),
        "notes": list(find_notes(record, goes_on=goes_on)),
        "drift": [format_drift(name, drift) for name, drift in drifts.items() if drift],
        "unpaired": [name for name, drift in drifts.items() if drift is None],
        "level": f"{LEVEL * 100:.0f} %",
        "cycles": list(_list_cycles(folder, record)),
        "command": format_command(record.scenario, record.for_s, record.keep),
        "disk": format_disk(folder, record),
        "host": _read_host(folder, record),
    }
    replace_file(folder.path / "summary.md", open_template("soak.md.j2", autoescape=False).render(content))
    page = open_template("soak.html.j2", autoescape=True).render(**content, chart_data=as_script_data(_read_curves(record)))
    replace_file(folder.path / "report.html", page)


def describe_outcome(record: SoakRecord) -> str:
    """Return what came of the cycles, in a sentence."""
    whole = record.whole
    if not whole:
        return "No cycle came to its end."
    failed = [cycle for cycle in whole if cycle.verdict != "pass"]
    if not failed:
        return f"Each of {len(whole)} cycles passes."
    first = failed[0]
    return (
        f"{len(whole) - len(failed)} of {len(whole)} cycles pass; the first that does not is cycle {first.number} "
        f"({first.verdict}): {first.reason}"
    )


def find_notes(record: SoakRecord, *, goes_on: bool = False) -> Iterator[str]:
    """Return what a reader must know before believing a figure."""
    if goes_on:
        yield f"The soak goes on: {len(record.whole)} of {record.planned_cycles} cycles are done."
    elif record.status != "completed":
        reason = record.reason or "the bench was killed"
        yield f"The soak did not come to its end: {reason}. What follows is what was done until then; --resume goes on."
    yield from record.notes
    if len(record.whole) < FEWEST_CYCLES:
        yield f"Not enough cycles for intervals: at least {FEWEST_CYCLES} are needed, and there are {len(record.whole)}."


def format_drift(name: str, drift: Drift) -> dict[str, Any]:
    """Return a drift in words, by column."""
    relative = f"{_signed(drift.slope / drift.level * 100)} %" if drift.level else "–"
    return {
        "name": name,
        "level": format_value(drift.level),
        "slope": _signed(drift.slope),
        "interval": "–" if drift.low is None or drift.high is None else f"{_signed(drift.low)} .. {_signed(drift.high)}",
        "relative": relative,
        "cycles": f"{drift.cycles}" + (f" in {drift.lines} lines" if drift.lines > 1 else ""),
        "is_real": drift.is_significant,
        "real": {True: "rises" if drift.slope > 0 else "falls", False: "no", None: "too few cycles"}[drift.is_significant],
    }


def format_disk(folder: SoakFolder, record: SoakRecord) -> str:
    """Return what the soak takes, and what was removed, in a sentence."""
    thinned = sum(cycle.is_thinned for cycle in record.cycles)
    removed = f"; of {thinned} cycles the records were removed after their tables had been made" if thinned else ""
    return f"The soak's folder takes {format_bytes(measure_bytes(folder.path))}, of {format_bytes(record.bound_bytes)} at most{removed}."


def _signed(value: float) -> str:
    return f"{'+' if value > 0 else '-' if value < 0 else ''}{format_value(abs(value))}"


def _list_cycles(folder: SoakFolder, record: SoakRecord) -> Iterator[dict[str, Any]]:
    for cycle in record.cycles:
        page = folder.cycle(cycle.number).path / "report.html"
        yield {
            "number": cycle.number,
            "page": str(page.relative_to(folder.path)) if page.is_file() else "",
            "began": datetime.fromtimestamp(cycle.start_ns / 1e9, UTC).strftime("%Y-%m-%d %H:%M:%S"),
            "verdict": cycle.verdict if cycle.status == "completed" else None,
            "status": cycle.status,
            "left_over": cycle.left_over,
            "resting": f"{cycle.resting_s:.0f}",
            "bytes": format_bytes(cycle.bytes or measure_bytes(page.parent)),
            "is_thinned": cycle.is_thinned,
            "reason": cycle.reason,
        }


def _read_curves(record: SoakRecord) -> dict[str, Any]:
    """Return what the charts draw, for JSON: a point a cycle, and an empty one where the servers' lives part."""
    places: list[int | None] = []
    t_minutes: list[float] = []
    intervals: list[dict[str, Any]] = []
    bad: list[dict[str, Any]] = []
    spent_s = 0.0
    whole = record.whole
    for index, cycle in enumerate(whole):
        minute = spent_s / 60
        spent_s += cycle.spent_s
        if index and cycle.interval != whole[index - 1].interval:
            places.append(None)
            t_minutes.append((t_minutes[-1] + minute) / 2)
        if not intervals or intervals[-1]["name"] != f"servers {cycle.interval}":
            intervals.append({"name": f"servers {cycle.interval}", "from_s": minute, "to_s": minute})
        intervals[-1]["to_s"] = spent_s / 60
        if cycle.verdict != "pass":
            bad.append({"name": f"cycle {cycle.number}", "from_s": minute, "to_s": spent_s / 60})
        places.append(index)
        t_minutes.append(minute)
    charts = []
    for title, beginning in _CHARTS.items():
        names = dict.fromkeys(name for cycle in whole for name in cycle.figures if name.startswith(beginning))
        series = [
            {
                "label": name.removeprefix(beginning).removesuffix(", MiB"),
                "values": [
                    None if place is None or name not in whole[place].figures else whole[place].figures[name].value
                    for place in places
                ],
            }
            for name in names
        ]
        if series:
            charts.append({"title": title, "series": series})
    return {"t_s": t_minutes, "unit": "min", "phases": intervals, "bands": bad, "charts": charts}


def _read_host(folder: SoakFolder, record: SoakRecord) -> dict[str, Any] | None:
    """Return on what the first cycle that is still there ran: ``host``, ``versions`` and ``servers`` of its record."""
    for cycle in record.cycles:
        path = folder.cycle(cycle.number).record
        if path.is_file():
            of_cycle = read_record(path)
            return {"host": of_cycle["host"], "versions": of_cycle["versions"], "servers": of_cycle["servers"]}
    return None
