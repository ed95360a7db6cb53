"""Makes the list of all measures in docs/measures.md: ``python -m tools.measures_page`` replaces it."""

from __future__ import annotations

from pathlib import Path

from stallbench.measure_definition import FromEvents, FromSamples, FromTable, Measure
from stallbench.measures import MEASURES


def describe_measures() -> str:
    """Return the table of docs/measures.md."""
    return "| measure | unit | meaning | statistics | better | source |\n|---|---|---|---|---|---|\n" + "".join(
        f"| `{measure.name}` | {measure.unit} | {measure.meaning} | {' '.join(f'`{each}`' for each in measure.statistics)} "
        f"| {measure.better if measure.has_direction else 'neither'} | {_describe_source(measure)} |\n"
        for measure in MEASURES.values()
    )


def _describe_source(measure: Measure) -> str:
    match measure.source:
        case FromEvents(events, _, deadlock_in, error_in):
            only = f" (a deadlock in {deadlock_in})" if deadlock_in else f" (in {error_in})" if error_in else ""
            return f"events: {', '.join(events)}{only}"
        case FromSamples(subject, metric, combine):
            kept = "sum" if combine == "sum" else "largest"
            return f"samples: `{metric or measure.name}` of {f'`{subject}`' if subject else 'any subject'}, {kept}"
        case FromTable(table):
            return f"table `{table}`"


if __name__ == "__main__":
    page = Path("docs/measures.md")
    page.write_text(page.read_text().partition("| measure |")[0] + describe_measures())
