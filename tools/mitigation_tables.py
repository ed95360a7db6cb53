"""``python -m tools.mitigation_tables``: writes the tables of mitigations in docs/, from ``evidence/``."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from stallbench import PROJECT
from stallbench.base.number_text import format_value
from stallbench.errors import BadInputError
from stallbench.evidence.collection import Collection
from stallbench.evidence.document import EarlierRow
from stallbench.evidence.staleness import OF_EARLIER_VERSIONS
from stallbench.report.markdown import format_code
from stallbench.scenario.file import find_scenarios, read_scenario, read_variants
from stallbench.scenario.model import CONTROL, Scenario
from stallbench.studies.comparison.record import ComparisonRecord
from stallbench.studies.comparison.report import format_command
from stallbench.studies.comparison.results import Results, find_results
from stallbench.studies.comparison.standings import Compared
from stallbench.verdicts.baseline.compared_metric import TIME_TO_SATURATION, ComparedMetric, choose_subjects, judged_subject_of
from tools.generated_blocks import Footnotes, format_heading, write_blocks
from tools.published import Published, link_study

PAGES = (PROJECT / "docs" / "mitigations.md", PROJECT / "docs" / "mitigations-of-reported-failures.md")
_COSTS = {"completed.rate": "jobs/s", "claim_ms.p50": "claim p50", "wal_bytes.rate": "WAL"}
"""Of the baseline, by metric: the label in the column *cost*."""
_COST_TITLE = {True: "cost at the baseline", False: "cost"}
"""By whether there is a column with the time to saturation."""
_LATENCY = "latency_ms."
"""A table has a column with the time to saturation only if its scenario ranks variants by this measure."""
_ANOTHER_MEASURE = "*with another measure than the scenario's:* "
"""Precedes an outcome that was decided by another metric than the one that the scenario names."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """One comparison and its results."""

    record: ComparisonRecord
    results: Results

    def suitability(self, variant: str) -> tuple[bool, bool, str]:
        """Return how suitable it is to assess ``variant``: whether it decides, whether the scenario is unchanged, and its id (newest last)."""
        assessment = self.results.assessments.get(variant)
        decides = assessment is not None and assessment.outcome not in (None, "undecided")
        return decides, not self.record.scenario.changes, self.record.id

    def includes(self, variant: str) -> bool:
        """Whether ``variant`` and what it is meant to be compared with take part."""
        named = {each.name: each.reference for each in self.record.variants}
        return variant in named and (self.record.names[0] == CONTROL or named[variant] in named)

    def find(self, metric: str) -> Compared | None:
        """Return the comparison in a metric, none if it was not compared."""
        return next((each for each in self.results.compared if each.subject.metric == metric), None)


def make_blocks(published: Published) -> tuple[dict[str, list[str]], list[str]]:
    """Return the lines of the table of each scenario with mitigations, by the scenario's name, and a message for each.

    If several published comparisons include a mitigation, one that decides its outcome is preferred, then one of the unchanged scenario, then the
    newest. A mitigation that none includes has the row that an earlier version published, marked as stale. An outcome that was decided by another
    metric than the scenario names says so.
    """
    blocks, messages = {}, []
    for name, path in find_scenarios().items():
        if mitigations := _find_mitigations(path):
            measured = _read_comparisons(published, name)
            ranked = choose_subjects([read_scenario(str(path))])[0]
            earlier = published.earlier(f"mitigations-{name}")
            blocks[name] = list(_table(mitigations, measured, earlier.rows if earlier else (), ranked, published))
            origins = ", ".join(sorted(each.record.id for each in measured)) or "no comparison of this version"
            messages.append(f"{name}: {len(mitigations)} mitigations, from {origins}")
    return blocks, messages


def _find_mitigations(path: Path) -> dict[str, Scenario]:
    variants = {name: read_scenario(str(path), variant=name) for name in read_variants(path)}
    return {name: scenario for name, scenario in variants.items() if scenario.mitigation}


def _read_comparisons(published: Published, scenario: str) -> list[Measured]:
    return [
        Measured(record=record, results=find_results(record))
        for record in published.comparisons(scenario)
        if CONTROL in record.names or any(variant.reference for variant in record.variants)
    ]


def _table(
    mitigations: Mapping[str, Scenario],
    measured: Sequence[Measured],
    earlier: Sequence[EarlierRow],
    ranked: ComparedMetric,
    published: Published,
) -> Iterator[str]:
    """Yield the lines of a table.

    ``earlier``: what an earlier version published of mitigations. ``ranked``: what the scenario ranks its variants by; if it is a latency, there is a
    column with the time to saturation.
    """
    footnotes = Footnotes()
    yield from footnotes.add_to(list(_make_rows(mitigations, measured, earlier, ranked, published, footnotes)))


def _make_rows(
    mitigations: Mapping[str, Scenario],
    measured: Sequence[Measured],
    earlier: Sequence[EarlierRow],
    ranked: ComparedMetric,
    published: Published,
    footnotes: Footnotes,
) -> Iterator[str]:
    before = {row.name: row for row in earlier}
    saturates = ranked.metric.startswith(_LATENCY)
    titles = ["outcome", "with it", "without it", *(["time to saturation"] if saturates else []), _COST_TITLE[saturates]]
    yield from format_heading(["mitigation", *titles, "proposed by", "from"])
    for name, scenario in mitigations.items():
        of_it = [each for each in measured if each.includes(name)]
        judged_by = (judged_subject_of(scenario) or ranked).key
        origin = ""
        if of_it:
            best = max(of_it, key=lambda each: each.suitability(name))
            saturation = [_saturation(best, name)] if saturates else []
            cells = [_outcome(best, name), *_figures(best, name), *saturation, _costs(best, name)]
            source = _describe_source(best.record, name)
            origin = footnotes.refer_to(source, published.find_reasons(best.record))
            cells[0] = _mark(cells[0], source, judged_by)
        elif name in before:
            cells = [before[name].cells.get(title, "") for title in titles]
            origin = footnotes.refer_to(before[name].source, [OF_EARLIER_VERSIONS])
            cells[0] = _mark(cells[0].removeprefix(_ANOTHER_MEASURE), before[name].source, judged_by)
        else:
            reasons = [each.record.left_out[name] for each in measured if name in each.record.left_out]
            cells = [f"not measured{f': {reasons[-1]}' if reasons else ''}", *[""] * (len(titles) - 1)]
        yield f"| {' | '.join([f'`{name}`: {scenario.summary}', *cells, str(scenario.mitigation), origin])} |"


def _describe_source(record: ComparisonRecord, name: str) -> str:
    judged_by, reference = record.judged_by[name].key, record.references[name]
    without = "*without it*" if reference == CONTROL else f"*without it* (`{reference}`)"
    return f"{link_study(record)}: {format_code(format_command(record))}; *with it* and {without}: `{judged_by}`."


def _mark(outcome: str, source: str, judged_by: str) -> str:
    """Return an outcome, with a mark if its source names another measure than ``judged_by``."""
    return outcome if source.endswith(f" `{judged_by}`.") else f"{_ANOTHER_MEASURE}{outcome}"


def _outcome(measured: Measured, name: str) -> str:
    assessment = measured.results.assessments.get(name)
    results = measured.results
    unsafe = (
        f"; **not safe**: {results.unsafe[name]}"
        if name in results.unsafe
        else f"; **not shown to be safe**: {results.undecided[name]}"
        if name in results.undecided
        else ""
    )
    if assessment is None or assessment.outcome is None:
        return f"not assessed: {assessment.reason if assessment else 'methods are ranked here'}{unsafe}"
    delay = _delay(measured, name) if assessment.outcome == "delays" else ""
    return f"**{assessment.outcome}**{delay} ({assessment.reason}){unsafe}"


def _delay(measured: Measured, name: str) -> str:
    """Return by how many seconds the queue saturates later than with its reference; nothing if that is unknown or this does not saturate."""
    saturation = measured.find(TIME_TO_SATURATION)
    medians = saturation.medians if saturation else {}
    reference = measured.record.references[name]
    if saturation is None or name not in medians or reference not in medians:
        return ""
    whole_s = measured.record.scenario.phases.get(saturation.subject.phase or "", float("inf"))
    later_s = medians[name] - medians[reference]
    if medians[reference] >= whole_s or later_s <= 0:
        return ""
    return f" by {'at least ' if medians[name] >= whole_s else ''}{later_s:.0f} s"


def _figures(measured: Measured, name: str) -> Iterator[str]:
    """Yield the median in what the mitigation is judged by, and that of its reference."""
    subject = measured.record.judged_by[name]
    compared = next(each for each in measured.results.compared if each.subject == subject)
    yield compared.format_median(name)
    yield compared.format_median(measured.record.references[name])


def _saturation(measured: Measured, name: str) -> str:
    """Return the median time to saturation, and that of its reference."""
    saturation = measured.find(TIME_TO_SATURATION)
    medians = saturation.medians if saturation else {}
    reference = measured.record.references[name]
    return f"{medians[name]:.0f} s ({medians[reference]:.0f} s)" if name in medians and reference in medians else ""


def _costs(measured: Measured, name: str) -> str:
    """Return what it costs; nothing without a cost.

    At the baseline as multiples of its reference's figures, unless this is the phase with the problem; what the scenario has columns of, with
    the reference's figure.
    """
    costs = []
    reference = measured.record.references[name]
    by_key = {each.subject.key: each for each in measured.results.compared}
    baseline = measured.record.baseline
    is_healthy = measured.record.ranked.phase != baseline
    at_baseline = {f"{metric} in {baseline}": label for metric, label in _COSTS.items()} if is_healthy else {}
    for key, label in at_baseline.items():
        compared = by_key.get(key)
        if compared and compared.medians.get(reference) and compared.is_costlier(name):
            costs.append(f"{label} × {format_value(compared.medians[name] / compared.medians[reference])}")
    for title, key in measured.record.columns.items():
        compared = by_key.get(key)
        if key not in at_baseline and compared and reference in compared.medians and compared.is_costlier(name):
            costs.append(f"{title} {compared.format_median(name)} ({compared.format_median(reference)})")
    return ", ".join(costs)


def main() -> None:
    """Write them."""
    try:
        blocks, messages = make_blocks(Collection())
        write_blocks(PAGES, blocks)
    except BadInputError as error:
        sys.exit(str(error))
    print(*messages, sep="\n")


if __name__ == "__main__":
    main()
