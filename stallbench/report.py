"""Tables and verdict become pages: one HTML file that opens anywhere, JUnit for CI, Markdown for a pull request."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import jinja2
import pandas as pd
from junitparser import Error, Failure, JUnitXml, TestCase, TestSuite

from stallbench.deadlock import Deadlock
from stallbench.deadlock_groups import DeadlockGroup, group_deadlocks
from stallbench.expected_round import expected_round
from stallbench.metrics import MEASURES
from stallbench.run_folder import PROJECT
from stallbench.verdicts import RunTables, Verdict
from stallbench.verdicts.expectations import format_value
from stallbench.whole_file import replace_file

TEMPLATES = PROJECT / "reports" / "templates"
_PHASE_METRICS = (
    ("completed.rate", "completed, jobs/s"),
    ("claim_ms.p50", "claim p50, ms"),
    ("claim_ms.p95", "claim p95, ms"),
    ("claim_ms.p99", "claim p99, ms"),
    ("latency_ms.p95", "latency p95, ms"),
    ("depth.last", "depth at its end"),
    ("dead_tuples.max", "dead tuples, most"),
    ("history_list_length.max", "history list length, longest"),
    ("replica_history_list_length.max", "history list length of the replica, longest"),
    ("deadlocks.count", "deadlocks"),
    ("deadlocks_in_claim.count", "deadlocks, claim rolled back"),
    ("deadlocks_in_complete.count", "deadlocks, delete rolled back"),
    ("executions_again.count", "executions of jobs done before"),
    ("row_lock_wait_ms.rate", "waiting for rows, ms a second"),
    ("stalled_s.longest", "longest stall, s"),
    ("lost_race.count", "lost races"),
    ("lag_ms.p99", "schedule lag p99, ms"),
    ("cpu_percent.mean", "host CPU, %"),
)
_ONLY_IF_ANY = {
    "dead_tuples.max",
    "history_list_length.max",
    "replica_history_list_length.max",
    "deadlocks.count",
    "deadlocks_in_claim.count",
    "deadlocks_in_complete.count",
    "executions_again.count",
    "row_lock_wait_ms.rate",
    "stalled_s.longest",
    "lost_race.count",
    "lag_ms.p99",
}
"""Rows that are left out where nothing of the kind happened, or could."""
_CHART_COLUMNS = (
    "oldest_transaction_s",
    "depth",
    "claim_ms_p50",
    "claim_ms_p95",
    "dead_tuples",
    "history_list_length",
    "deadlocks_in_claim",
    "deadlocks_in_complete",
    "executions_again",
    "enqueued",
    "completed",
    "latency_ms_p50",
    "latency_ms_p95",
)
_MOST_POINTS = 5000
_MOST_BARS = 12
_FEW = 3


def make_report(run: RunTables, verdict: Verdict) -> Path:
    """Write ``report.html``, ``junit.xml`` and ``summary.md`` into the run's folder; returns the first."""
    replace_file(run.folder / "summary.md", _render("summary.md.j2", run, verdict, autoescape=False))
    _write_junit(run.folder / "junit.xml", run, verdict)
    page = run.folder / "report.html"
    replace_file(page, _render("report.html.j2", run, verdict, autoescape=True))
    return page


def open_template(name: str, *, autoescape: bool) -> jinja2.Template:
    """Return a template of ``reports/templates`` with the filters ``figure``, ``came`` and ``clock``; what it misses is an error."""
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(TEMPLATES),
        autoescape=autoescape,  # noqa: S701 - off for Markdown
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
    )
    environment.filters["figure"] = lambda value: "no data" if value is None else format_value(value)
    environment.filters["came"] = lambda value: "not in this run" if value is None else format_value(value)
    environment.filters["clock"] = _format_clock
    return environment.get_template(name)


def cut_windows(run: RunTables) -> pd.DataFrame:
    """Return the whole seconds of the phases, in order."""
    windows = run["windows"].sort_values("t_s")
    # The last second is cut off by the end of the load, and would look like a collapse.
    ends_ns = [phase["end_ns"] for phase in run.record["phases"] if phase["end_ns"]]
    return windows[(windows["t_s"] >= 0) & (windows["t_ns"] + 10**9 <= max(ends_ns, default=2**63 - 1))]


def list_phases(record: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the phases that have begun, for the bands of a chart: ``name``, ``from_s``, ``to_s`` (none if its end is not known)."""
    start_ns = next((phase["start_ns"] for phase in record["phases"] if phase["start_ns"]), 0)
    return [
        {
            "name": phase["name"],
            "from_s": (phase["start_ns"] - start_ns) / 1e9,
            "to_s": (phase["end_ns"] - start_ns) / 1e9 if phase["end_ns"] else None,
        }
        for phase in record["phases"]
        if phase["start_ns"]
    ]


def list_faults(run: RunTables) -> list[dict[str, Any]]:
    """Return what held the database back, for the bands of a chart: ``name``, ``target``, ``from_s``, ``to_s``, each none if unknown."""
    return [
        {key: None if pd.isna(row[key]) else row[key] for key in ("name", "target", "from_s", "to_s")}
        for row in run["faults"].to_dict("records")
    ]


def as_script_data(data: Mapping[str, Any]) -> str:
    """Return ``data`` as JSON that is safe inside a script element."""
    return json.dumps(data).replace("<", "\\u003c")


def _render(template: str, run: RunTables, verdict: Verdict, *, autoescape: bool) -> str:
    return open_template(template, autoescape=autoescape).render(
        run=run.record,
        verdict=verdict,
        effect=verdict.attribution.effect,
        phase_names=[phase["name"] for phase in run.record["phases"] if phase["start_ns"]],
        phase_rows=_phase_rows(run),
        highlights=_find_highlights(run),
        conservation=run["conservation"].to_dict("records"),
        duplicates=run["duplicates"].head(20).to_dict("records"),
        duplicate_count=len(run["duplicates"]),
        recoveries=_list_recoveries(run),
        errors=_add_up_errors(run["errors"]),
        chart_data=_chart_data(run, verdict),
        command=_command(run.record),
        vacuum=_read_vacuum(run.folder / "samples" / "vacuum.csv"),
        deadlocks=_read_deadlocks(run.folder / "samples" / "innodb_deadlocks.csv"),
        deadlock_count=run.metric("deadlocks", "count", None),
        expected_round=_find_expected_round(run),
        plans=_read_plans(run.folder / "samples" / "plan.csv"),
    )


def _phase_rows(run: RunTables) -> list[dict[str, Any]]:
    """Return a row a metric, with its value in each phase that has begun."""
    names = [phase["name"] for phase in run.record["phases"] if phase["start_ns"]]
    rows = []
    for metric, label in _PHASE_METRICS:
        measure, _, statistic = metric.partition(".")
        values = [run.metric(measure, statistic, name) for name in names]
        if metric in _ONLY_IF_ANY and not any(values):
            continue
        rows.append({"label": label, "meaning": MEASURES[measure].meaning, "values": values})
    return rows


def _find_highlights(run: RunTables) -> list[dict[str, Any]]:
    """Return the figures of the baseline beside those of the phase with the longest claims."""
    measured = [phase["name"] for phase in run.record["phases"] if phase["measured"] and phase["start_ns"]]
    if not measured:
        return []
    claims = {name: run.metric("claim_ms", "p95", name) or 0.0 for name in measured}
    worst = max(measured, key=lambda name: claims[name])
    shown = (
        ("claim_ms.p95", "claim time p95", "ms"),
        _garbage(run),
        ("depth.max", "queue depth", "jobs"),
    )
    if len(measured) == 1:
        return _find_totals(run, measured[0])
    highlights = []
    for metric, label, unit in shown:
        measure, _, statistic = metric.partition(".")
        before, after = run.metric(measure, statistic, measured[0]), run.metric(measure, statistic, worst)
        highlights.append(
            {"label": label, "unit": unit, "before": before, "after": after, "baseline": measured[0], "phase": worst}
        )
    return highlights


def _list_recoveries(run: RunTables) -> list[dict[str, Any]]:
    """Return a row for each fault that is over: the table ``recoveries``, with where it struck, since when, and its evidence."""
    records = {fault["name"]: fault for fault in run.record["faults"]}
    if not records:
        return []
    begins_s = run["faults"].set_index("name")["from_s"]
    rows = run["recoveries"].astype(object).where(run["recoveries"].notna(), None).to_dict("records")
    return [
        {
            **{str(column): value for column, value in row.items()},
            "on": records[row["fault"]]["on"],
            "from_s": begins_s[row["fault"]],
            "evidence": json.dumps(records[row["fault"]]["evidence"]),
        }
        for row in rows
    ]


def _garbage(run: RunTables) -> tuple[str, str, str]:
    """Return the metric of what the engine keeps of deleted rows, with its label and unit."""
    if run.metric("history_list_length", "max", None) is not None:
        return "history_list_length.max", "history list length", ""
    return "dead_tuples.max", "dead tuples", ""


def _add_up_errors(errors: pd.DataFrame) -> list[dict[str, Any]]:
    """Return a row for each phase, kind, move and outcome; the processes are named while they are few."""
    if errors.empty:
        return []
    keys = ["phase", "kind", "move", "event"]
    rows = errors.fillna({"phase": ""}).groupby(keys, as_index=False).agg(count=("count", "sum"), names=("process", "unique"))
    rows["process"] = [", ".join(names) if len(names) <= _FEW else f"{len(names)} processes" for names in rows["names"]]
    return [dict(zip(rows.columns, row, strict=True)) for row in rows.sort_values("count", ascending=False).to_numpy().tolist()]


def _find_totals(run: RunTables, phase: str) -> list[dict[str, Any]]:
    """Return the figures of a run of one phase, which has nothing to be compared with."""
    shown = (
        ("completed.rate", "completed", "jobs/s"),
        ("deadlocks.count", "deadlocks", ""),
        ("executions_again.count", "executed again", ""),
        ("stalled_s.longest", "longest stall", "s"),
        ("order_diff.max", "farthest from its turn", "places"),
    )
    totals = []
    for metric, label, unit in shown:
        measure, _, statistic = metric.partition(".")
        value = run.metric(measure, statistic, None if MEASURES[measure].is_of_run else phase)
        if value is not None:
            totals.append({"label": label, "unit": unit, "before": None, "after": value, "baseline": "", "phase": phase})
    return totals


def _chart_data(run: RunTables, verdict: Verdict) -> str:
    """Return what the charts draw, as JSON that is safe inside a script element."""
    windows = cut_windows(run)
    step = 1 + len(windows) // _MOST_POINTS
    columns = {
        name: [None if pd.isna(v) else float(v) for v in windows[name].iloc[::step]] for name in _CHART_COLUMNS if name in windows
    }
    data = {
        "t_s": [int(t) for t in windows["t_s"].iloc[::step]],
        "columns": columns,
        "phases": list_phases(run.record),
        "faults": list_faults(run),
        "holders": [
            {"name": stay.name, "server": stay.server, "from_s": stay.from_s, "to_s": stay.to_s, "about": stay.description}
            for stay in sorted(verdict.attribution.holders, key=lambda stay: stay.from_s)[:_MOST_BARS]
        ],
        "rounds": run["rounds"].to_numpy().tolist(),
        "order": run["order"].sort_values("diff")[["diff", "claims"]].to_numpy().tolist(),
    }
    return as_script_data(data)


def _read_vacuum(path: Path) -> list[dict[str, Any]]:
    """Return what is known of each table's autovacuum at the end, and the most that one could not remove."""
    rows = []
    for subject, of_table in _read_samples(path).groupby("subject"):
        values = of_table.assign(value=pd.to_numeric(of_table["value"], errors="coerce"))
        most = values.groupby("metric")["value"].max()
        rows.append(
            {
                "table": str(subject).removeprefix("table:"),
                "runs": most.get("autovacuum_count"),
                "kept": most.get("not_removable_tuples"),
                "removed": most.get("removed_tuples"),
            }
        )
    return rows


def _read_samples(path: Path) -> pd.DataFrame:
    """Return a collector's samples, those of a torn last line left out; empty if there are none."""
    names = ["t_ns", "source", "subject", "metric", "value"]
    if not path.exists() or path.stat().st_size == 0:
        return pd.DataFrame(columns=names)
    return pd.read_csv(path, names=names, on_bad_lines="skip")


def _read_deadlocks(path: Path) -> Sequence[DeadlockGroup]:
    """Return the deadlocks whose listings were read, by kind; one that is torn is left out."""
    deadlocks = []
    for value in _read_samples(path)["value"]:
        try:
            deadlocks.append(Deadlock.from_sample_value(str(value)))
        except ValueError:
            continue
    # On the bench's own servers every process is a user of its own name.
    names = {one.thread_id: one.user for deadlock in deadlocks for one in deadlock.transactions if one.thread_id and one.user}
    return group_deadlocks(deadlocks, names)


def _find_expected_round(run: RunTables) -> float | None:
    """Return the article's expected round for the queue's window; none if it has none."""
    window = run.record["queue"]["options"].get("window")
    return expected_round(window) if isinstance(window, int) and window > 1 else None


def _read_plans(path: Path) -> list[dict[str, Any]]:
    """Return each plan by which a claim found its job, without estimates of rows and times, and how often it was seen."""
    plans = _read_samples(path)["value"].astype(str).str.replace(r"[;,] \d+ rows", "", regex=True)
    plans = plans.str.replace(r"\b\d{10}\b", "?", regex=True)
    return [{"plan": plan, "times": times} for plan, times in plans.value_counts().items()]


def _command(record: Mapping[str, Any]) -> str:
    scenario = record["scenario"]
    name = scenario["name"] if scenario["file"].startswith("scenarios/") else scenario["file"]
    return (
        f"stallbench run {name}"
        + (f" --variant {scenario['variant']}" if scenario["variant"] else "")
        + "".join(f" --set {change}" for change in scenario["changes"])
    )


def _write_junit(path: Path, run: RunTables, verdict: Verdict) -> None:
    suite = TestSuite(f"stallbench.{run.record['scenario']['name']}")
    for finding in verdict.findings:
        case = TestCase(finding.subject, classname=f"{run.record['id']}.{finding.check}")
        if finding.result == "fail":
            case.result = [Failure(finding.reason)]
        elif finding.result == "unknown":
            case.result = [Error(finding.reason)]
        suite.add_testcase(case)
    if verdict.status != "completed":
        case = TestCase("the run is carried out", classname=f"{run.record['id']}.status")
        case.result = [Error(verdict.reason)]
        suite.add_testcase(case)
    xml = JUnitXml()
    xml.add_testsuite(suite)
    replace_file(path, xml.tostring().decode())  # type: ignore[no-untyped-call]


def _format_clock(t_ns: int | None) -> str:
    return datetime.fromtimestamp(t_ns / 1e9, UTC).strftime("%Y-%m-%d %H:%M:%S UTC") if t_ns else "never"
