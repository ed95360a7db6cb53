"""A comparison's pages: one HTML file that opens anywhere, and Markdown for a pull request."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from stallbench.atomic_file import replace_file
from stallbench.comparison.curves import read_curves
from stallbench.comparison.formatting import (
    describe_agreement,
    describe_significance,
    format_difference,
    format_median,
    format_spread,
)
from stallbench.comparison.record import ComparisonFolder, ComparisonRecord
from stallbench.comparison.results import Results
from stallbench.comparison.standings import Compared
from stallbench.comparison.statistics import FEWEST_ROUNDS, LEVEL
from stallbench.comparison.table import make_own_table
from stallbench.report import open_template
from stallbench.report.charts import as_script_data
from stallbench.run.record import read_record
from stallbench.scenario.model import CONTROL


def make_pages(folder: ComparisonFolder, record: ComparisonRecord, results: Results) -> None:
    """Write ``report.html`` and ``summary.md`` into the comparison's folder."""
    content = {
        "record": record,
        "ranked": results.ranked.subject,
        "ranking": list(_ranking_rows(record, results)),
        "own_table": make_own_table(record, results),
        "agreements": [describe_agreement(agreement) for agreement in results.agreements],
        "groups": [
            {
                "key": each.subject.key,
                "meaning": each.subject.meaning,
                "better": each.subject.better,
                "rows": list(_rows(each)),
            }
            for each in results.compared
        ],
        "notes": list(find_notes(record, results)),
        "recommendation": results.recommendation,
        "has_words": results.has_words,
        "reference": record.names[0],
        "level": f"{LEVEL * 100:.0f} %",
        "host": _read_host(folder, record),
        "command": format_command(record),
    }
    replace_file(folder.path / "summary.md", open_template("comparison.md.j2", autoescape=False).render(content))
    chart_data = as_script_data(read_curves(record, folder.runs))
    page = open_template("comparison.html.j2", autoescape=True).render(**content, chart_data=chart_data)
    replace_file(folder.path / "report.html", page)


def format_command(record: ComparisonRecord) -> str:
    """Return the command that does the comparison again."""
    scenario = record.scenario
    name = scenario.name if scenario.file.startswith("scenarios/") else scenario.file
    return (
        f"stallbench compare {name} --variants {','.join(record.names)} --repeat {record.rounds} --seed {record.seed}"
        + "".join(f" --set {change}" for change in (*scenario.changes, *scenario.measured))
    )


def _ranking_rows(record: ComparisonRecord, results: Results) -> Iterator[dict[str, Any]]:
    """Return a row for each variant, the best first."""
    summaries = {compared_variant.name: compared_variant.summary for compared_variant in record.contestants}
    for row in _rows(results.ranked, in_order_of_rank=True):
        name = row["name"]
        judgement = results.judgements.get(name)
        yield {
            **row,
            "summary": summaries[name],
            "word": (judgement.word if judgement else None) or "",
            "reason": judgement.reason if judgement else "",
            "broken": results.broken.get(name, ""),
            "published": [
                (record.published[agreement.where].get(name), agreement.ranks.get(name)) for agreement in results.agreements
            ],
        }


def _rows(compared: Compared, *, in_order_of_rank: bool = False) -> Iterator[dict[str, Any]]:
    for name in compared.by_rank if in_order_of_rank else compared.standings:
        standing = compared.standings[name]
        yield {
            "name": name,
            "rank": standing.rank,
            "median": format_median(standing),
            "spread": format_spread(standing),
            "rounds": len(standing.values),
            "difference": format_difference(standing.difference),
            "real": describe_significance(standing),
        }


def find_notes(record: ComparisonRecord, results: Results) -> Iterator[str]:
    """Return what a reader must know before believing a figure."""
    if record.status != "completed":
        reason = record.reason or "it still goes on, or the bench was killed"
        yield f"The comparison did not come to its end: {reason}. What follows is what was done until then."
    for run in record.runs:
        if run.status in ("failed", "aborted"):
            yield f"Run {run.number} ({run.variant}, round {run.round}) was not carried out: {run.reason}."
    fewest = min(len(standing.values) for standing in results.ranked.standings.values())
    if fewest < FEWEST_ROUNDS:
        yield f"Not enough rounds for an interval: at least {FEWEST_ROUNDS} of each variant are needed, and one has {fewest}."
    elif results.judgements and not results.has_words:
        yield f"No variant is judged in a word: {next(iter(results.judgements.values())).reason}."
    for name, reason in results.broken.items():
        yield f"{name} is not safe: {reason}."
    if record.names[0] != CONTROL:
        yield f"{CONTROL} did not take part: differences are from {record.names[0]}."


def _read_host(folder: ComparisonFolder, record: ComparisonRecord) -> dict[str, Any] | None:
    """Return on what the first run that is still there ran: ``host`` and ``versions`` of its record."""
    for run in record.runs:
        path = folder.runs / (run.folder or "") / "run.json"
        if run.folder and path.is_file():
            of_run = read_record(path)
            return {"host": of_run["host"], "versions": of_run["versions"], "servers": of_run["servers"]}
    return None
