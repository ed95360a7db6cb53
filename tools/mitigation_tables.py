"""``python -m tools.mitigation_tables [SCENARIO]``: writes the tables of mitigations in docs/, from the comparisons on disk."""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from stallbench import PROJECT
from stallbench.base.number_text import format_value
from stallbench.base.storage.atomic_file import replace_file
from stallbench.errors import BadInputError
from stallbench.report.markdown import format_code
from stallbench.run.folder import RUNS
from stallbench.scenario.file import find_scenario, find_scenarios, read_scenario, read_variants
from stallbench.scenario.model import CONTROL, Scenario
from stallbench.studies.comparison.record import ComparisonRecord, find_comparison_folders
from stallbench.studies.comparison.report import format_command
from stallbench.studies.comparison.results import Results, find_results
from stallbench.studies.comparison.standings import Compared
from stallbench.verdicts.baseline.compared_metric import TIME_TO_SATURATION, ComparedMetric, choose_subjects, judged_subject_of

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


def write_tables(runs: Path, only: str | None = None, pages: Sequence[Path] = PAGES) -> list[str]:
    """Replace the table of each scenario that ``runs`` holds a comparison of; returns one message for each scenario with mitigations.

    A table is on the one of ``pages`` that has its markers. ``only``: name or path of one scenario. If several comparisons include a
    mitigation, one that decides its outcome is preferred, then one of the unchanged scenario, then the newest. A mitigation that no
    comparison in ``runs`` includes keeps its row. An outcome that was decided by another metric than the scenario names says so. Raises
    `BadInputError` if there is no comparison at all, or if no page has markers for a table.
    """
    wanted = find_scenarios() if only is None else {Path(find_scenario(only)).stem: find_scenario(only)}
    texts, messages, written = {page: page.read_text() for page in pages}, [], 0
    for name, path in wanted.items():
        mitigations = _find_mitigations(path)
        if not mitigations:
            continue
        measured = _read_comparisons(runs, name)
        if not measured:
            messages.append(f"{name}: no comparison with {CONTROL} in {runs}; its table stays as it is")
            continue
        page, (before, section, after) = _split(texts, name)
        ranked = choose_subjects([read_scenario(str(path))])[0]
        table = "\n".join(_table(mitigations, measured, _read_rows(section), ranked))
        texts[page] = f"{before}\n{table}\n\n{after}"
        messages.append(f"{name}: {len(mitigations)} mitigations, from {', '.join(sorted(each.record.id for each in measured))}")
        written += 1
    if not written:
        raise BadInputError(
            "\n".join([*messages, "there is no table to write; run a comparison first, like: stallbench compare longtx"])
        )
    for page, text in texts.items():
        replace_file(page, text)
    return messages


def _find_mitigations(path: Path) -> dict[str, Scenario]:
    variants = {name: read_scenario(str(path), variant=name) for name in read_variants(path)}
    return {name: scenario for name, scenario in variants.items() if scenario.mitigation}


def _read_comparisons(runs: Path, scenario: str) -> list[Measured]:
    records = [folder.read() for folder in find_comparison_folders(runs)]
    return [
        Measured(record=record, results=find_results(record))
        for record in records
        if record.scenario.name == scenario and record.status == "completed"
        if CONTROL in record.names or any(variant.reference for variant in record.variants)
    ]


def _split(texts: Mapping[Path, str], scenario: str) -> tuple[Path, tuple[str, str, str]]:
    """Return the page with the markers of ``scenario``, and its text before, between and after them.

    The markers belong to the outer parts.
    """
    begin, end = f"<!-- {scenario}: begin -->\n", f"<!-- {scenario}: end -->"
    for page, text in texts.items():
        before, found, rest = text.partition(begin)
        section, found_end, after = rest.partition(end)
        if found and found_end:
            return page, (before + begin, section, end + after)
    raise BadInputError(
        f"{', '.join(map(str, texts))}: no markers for the table of {scenario}; add the lines {begin.strip()} and {end} where it belongs"
    )


def _read_rows(section: str) -> dict[str, tuple[str, str]]:
    """Return the rows of a table by mitigation: each without its last cell, and the footnote that the last cell refers to.

    An outcome has no mark of another measure: whether it needs one depends on the scenario.
    """
    footnotes = dict(re.findall(r"^(\d+)\. (.+)$", section, re.MULTILINE))
    rows = re.findall(r"^(\| `(\w+)`: .*) \| (\d+) \|$", section.replace(_ANOTHER_MEASURE, ""), re.MULTILINE)
    return {name: (row, footnotes[number]) for row, name, number in rows if number in footnotes}


def _table(
    mitigations: Mapping[str, Scenario],
    measured: Sequence[Measured],
    kept: Mapping[str, tuple[str, str]],
    ranked: ComparedMetric,
) -> Iterator[str]:
    """Yield the lines of a table.

    ``kept``: present rows with their footnotes, for mitigations that no comparison on disk includes. ``ranked``: what the scenario ranks
    its variants by; if it is a latency, there is a column with the time to saturation.
    """
    footnotes: list[str] = []
    saturates = ranked.metric.startswith(_LATENCY)

    def refer_to(footnote: str) -> int:
        if footnote not in footnotes:
            footnotes.append(footnote)
        return footnotes.index(footnote) + 1

    titles = [
        "mitigation",
        "outcome",
        "with it",
        "without it",
        *(["time to saturation"] if saturates else []),
        _COST_TITLE[saturates],
    ]
    yield f"| {' | '.join([*titles, 'proposed by', 'from'])} |"
    yield "|---" * (len(titles) + 2) + "|"
    for name, scenario in mitigations.items():
        of_it = [each for each in measured if each.includes(name)]
        beginning, ending = f"| `{name}`: {scenario.summary}", f"{scenario.mitigation} |"
        judged_by = (judged_subject_of(scenario) or ranked).key
        if of_it:
            best = max(of_it, key=lambda each: each.suitability(name))
            saturation = [_saturation(best, name)] if saturates else []
            cells = [_outcome(best, name), *_figures(best, name), *saturation, _costs(best, name)]
            footnote = _describe_source(best.record, name)
            yield _mark(f"{beginning} | {' | '.join(cells)} | {ending} {refer_to(footnote)} |", footnote, judged_by)
        elif name in kept:
            row, footnote = kept[name]
            yield _mark(f"{row} | {refer_to(footnote)} |", footnote, judged_by)
        else:
            reasons = [each.record.left_out[name] for each in measured if name in each.record.left_out]
            why = f": {reasons[-1]}" if reasons else ""
            yield f"{beginning} | not measured{why} {'| ' * (len(titles) - 1)}{ending} |"
    yield ""
    for number, footnote in enumerate(footnotes, 1):
        yield f"{number}. {footnote}"


def _describe_source(record: ComparisonRecord, name: str) -> str:
    judged_by, reference = record.judged_by[name].key, record.references[name]
    without = "*without it*" if reference == CONTROL else f"*without it* (`{reference}`)"
    return f"{format_code(format_command(record))}, {record.id[:8]}; *with it* and {without}: `{judged_by}`."


def _mark(row: str, footnote: str, judged_by: str) -> str:
    """Return the row with a mark before its outcome, if its footnote names another measure than ``judged_by``."""
    if footnote.endswith(f" `{judged_by}`."):
        return row
    mitigation, outcome = row.split(" | ", 1)
    return f"{mitigation} | {_ANOTHER_MEASURE}{outcome}"


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
    parser = argparse.ArgumentParser(prog="python -m tools.mitigation_tables", description=__doc__)
    parser.add_argument("scenario", nargs="?", metavar="SCENARIO", help="only the table of this one")
    parser.add_argument("--runs", type=Path, default=RUNS, metavar="FOLDER", help="where the comparisons are (%(default)s)")
    options = parser.parse_args()
    try:
        print(*write_tables(options.runs, options.scenario), sep="\n")
    except BadInputError as error:
        sys.exit(str(error))


if __name__ == "__main__":
    main()
