"""The tables in docs/mitigations.md: what each mitigation came to, from the comparisons on disk."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from stallbench import PROJECT
from stallbench.atomic_file import replace_file
from stallbench.comparison.record import ComparisonFolder, ComparisonRecord
from stallbench.comparison.report import format_command
from stallbench.comparison.results import Results, find_results
from stallbench.comparison.standings import Compared
from stallbench.comparison.subject import HELD_OUT
from stallbench.errors import BadInputError
from stallbench.run.folder import COMPARISON
from stallbench.scenario.file import find_scenario, find_scenarios, read_scenario, read_variants
from stallbench.scenario.model import CONTROL, Scenario
from stallbench.verdicts.expectations import format_value

PAGE = PROJECT / "docs" / "mitigations.md"
_COSTS = {"completed.rate": "jobs/s", "claim_ms.p50": "claim p50", "wal_bytes.rate": "WAL"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """One comparison in which the scenario itself took part, and what it shows."""

    record: ComparisonRecord
    results: Results

    def serves(self, variant: str) -> tuple[bool, bool, str]:
        """Return how well it serves to judge ``variant``: whether in a word, whether with the scenario as it stands, and when."""
        judgement = self.results.judgements.get(variant)
        return judgement is not None and judgement.word is not None, not self.record.scenario.changes, self.record.id

    def of(self, metric: str) -> Compared | None:
        """Return what was found of a metric, none if nothing was."""
        return next((each for each in self.results.compared if each.subject.metric == metric), None)


def write_tables(runs: Path, only: str | None = None, page: Path = PAGE) -> list[str]:
    """Replace the table of each scenario of which ``runs`` holds a comparison; returns a sentence for each scenario with mitigations.

    ``only``: name or path of one scenario. Of several comparisons that have a mitigation, one that judges it in a word is taken before
    one that does not, then one of the scenario as it stands before a changed one, then the newest. A mitigation of which no comparison
    is in ``runs`` keeps its row. Raises `BadInputError` if there is no comparison at all, or no place in ``page`` for a table.
    """
    wanted = find_scenarios() if only is None else {Path(find_scenario(only)).stem: find_scenario(only)}
    text, told, written = page.read_text(), [], 0
    for name, path in wanted.items():
        mitigations = _find_mitigations(path)
        if not mitigations:
            continue
        measured = _read_comparisons(runs, name)
        if not measured:
            told.append(f"{name}: no comparison with {CONTROL} in {runs}; its table stays as it is")
            continue
        before, section, after = _split(text, name, page)
        table = "\n".join(_table(mitigations, measured, _read_rows(section)))
        text = f"{before}\n{table}\n\n{after}"
        told.append(f"{name}: {len(mitigations)} mitigations, from {', '.join(sorted(each.record.id for each in measured))}")
        written += 1
    if not written:
        raise BadInputError("\n".join([*told, "there is no table to write: run one like `stallbench compare longtx` first"]))
    replace_file(page, text)
    return told


def _find_mitigations(path: Path) -> dict[str, Scenario]:
    variants = {name: read_scenario(str(path), variant=name) for name in read_variants(path)}
    return {name: scenario for name, scenario in variants.items() if scenario.mitigation}


def _read_comparisons(runs: Path, scenario: str) -> list[Measured]:
    records = [ComparisonFolder(path.parent).read() for path in sorted(runs.glob(f"*/{COMPARISON}"))]
    return [
        Measured(record=record, results=find_results(record))
        for record in records
        if record.scenario.name == scenario and record.status == "completed" and CONTROL in record.names
    ]


def _split(text: str, scenario: str, page: Path) -> tuple[str, str, str]:
    """Return what is before, between and behind the marks of ``scenario``, the marks with what is outside."""
    begin, end = f"<!-- {scenario}: begin -->\n", f"<!-- {scenario}: end -->"
    before, found, rest = text.partition(begin)
    section, found_end, after = rest.partition(end)
    if not found or not found_end:
        raise BadInputError(
            f"{page}: has no place for the table of {scenario}; put the lines {begin.strip()} and {end} where it belongs"
        )
    return before + begin, section, end + after


def _read_rows(section: str) -> dict[str, tuple[str, str]]:
    """Return the rows that a table has, by mitigation: each without its last cell, and the footnote that this names."""
    footnotes = dict(re.findall(r"^(\d+)\. (.+)$", section, re.MULTILINE))
    rows = re.findall(r"^(\| `(\w+)`: .*) \| (\d+) \|$", section, re.MULTILINE)
    return {name: (row, footnotes[number]) for row, name, number in rows if number in footnotes}


def _table(
    mitigations: Mapping[str, Scenario], measured: Sequence[Measured], kept: Mapping[str, tuple[str, str]]
) -> Iterator[str]:
    """Yield the lines of a table; ``kept``: rows as they are, with their footnotes, of what no comparison on disk has."""
    footnotes: list[str] = []

    def refer_to(footnote: str) -> int:
        if footnote not in footnotes:
            footnotes.append(footnote)
        return footnotes.index(footnote) + 1

    yield "| mitigation | in a word | with it | without it | holds out | at the baseline | proposed by | from |"
    yield "|---|---|---|---|---|---|---|---|"
    for name, scenario in mitigations.items():
        of_it = [each for each in measured if name in each.record.names]
        beginning, ending = f"| `{name}`: {scenario.summary}", f"{scenario.mitigation} |"
        if of_it:
            best = max(of_it, key=lambda each: each.serves(name))
            cells = [_word(best, name), *_figures(best, name), _costs(best, name)]
            yield f"{beginning} | {' | '.join(cells)} | {ending} {refer_to(_describe_source(best.record))} |"
        elif name in kept:
            row, footnote = kept[name]
            yield f"{row} | {refer_to(footnote)} |"
        else:
            reasons = [each.record.left_out[name] for each in measured if name in each.record.left_out]
            why = f": {reasons[-1]}" if reasons else ""
            yield f"{beginning} | not measured{why} | | | | | {ending} |"
    yield ""
    for number, footnote in enumerate(footnotes, 1):
        yield f"{number}. {footnote}"


def _describe_source(record: ComparisonRecord) -> str:
    return f"`{format_command(record)}`, {record.id[:8]}; *with it* and *without it*: `{record.ranked.key}`."


def _word(measured: Measured, name: str) -> str:
    judgement = measured.results.judgements.get(name)
    unsafe = f"; **not safe**: {measured.results.broken[name]}" if name in measured.results.broken else ""
    if judgement is None or judgement.word is None:
        return f"not judged: {judgement.reason if judgement else 'methods are ranked here'}{unsafe}"
    return f"**{judgement.word}**{_delay(measured, name) if judgement.word == 'delays' else ''} ({judgement.reason}){unsafe}"


def _delay(measured: Measured, name: str) -> str:
    """Return by how long the queue falls behind later than without; nothing where that is not known, or it does not fall behind."""
    held_out = measured.of(HELD_OUT)
    medians = held_out.medians if held_out else {}
    if held_out is None or name not in medians or CONTROL not in medians:
        return ""
    whole_s = measured.record.scenario.phases.get(held_out.subject.phase or "", float("inf"))
    later_s = medians[name] - medians[CONTROL]
    if medians[CONTROL] >= whole_s or later_s <= 0:
        return ""
    return f" by {'at least ' if medians[name] >= whole_s else ''}{later_s:.0f} s"


def _figures(measured: Measured, name: str) -> Iterator[str]:
    """Yield the ranked median, control's, and for how long each held out."""
    yield measured.results.ranked.describe(name)
    yield measured.results.ranked.describe(CONTROL)
    held_out = measured.of(HELD_OUT)
    medians = held_out.medians if held_out else {}
    yield f"{medians[name]:.0f} s ({medians[CONTROL]:.0f} s)" if name in medians and CONTROL in medians else ""


def _costs(measured: Measured, name: str) -> str:
    """Return what it really costs at the baseline, as multiples of control's; nothing where no difference is real."""
    told = []
    for metric, words in _COSTS.items():
        compared = measured.of(metric)
        if compared and compared.medians.get(CONTROL) and compared.is_dearer(name, CONTROL):
            told.append(f"{words} × {format_value(compared.medians[name] / compared.medians[CONTROL])}")
    return ", ".join(told)
