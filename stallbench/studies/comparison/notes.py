"""What a reader of a comparison must know before relying on a figure: what is missing from it, and by what each variant is judged."""

from __future__ import annotations

from collections.abc import Iterator

from stallbench.scenario.model import CONTROL
from stallbench.studies.comparison.formatting import format_difference, format_p
from stallbench.studies.comparison.record import ComparisonRecord
from stallbench.studies.comparison.results import Results
from stallbench.verdicts.baseline.statistics import FEWEST_ROUNDS


def find_notes(record: ComparisonRecord, results: Results) -> Iterator[str]:
    """Yield the notes, a sentence or two each."""
    yield from _find_missing_runs(record)
    fewest = min(len(standing.values) for standing in results.ranked.standings.values())
    if fewest < FEWEST_ROUNDS:
        yield f"Not enough rounds for confidence intervals: each variant needs at least {FEWEST_ROUNDS}, and one has {fewest}."
    elif results.assessments and not results.has_assessments:
        yield f"No variant is assessed: {next(iter(results.assessments.values())).reason}."
    yield from _find_missing_values(record, results)
    yield from _describe_judgements(record, results)
    for name, reason in results.unsafe.items():
        yield f"{name} is not safe: {reason}."
    for name, reason in results.undecided.items():
        yield f"{name} is not shown to be safe: {reason}."
    if record.names[0] != CONTROL and not record.versions:
        yield f"{CONTROL} was not run: differences are from {record.names[0]}."


def _find_missing_runs(record: ComparisonRecord) -> Iterator[str]:
    if record.status != "completed":
        reason = record.reason or "it is still running, or the bench was killed"
        yield f"The comparison is not complete: {reason}. The figures are of the runs done so far."
    for run in record.runs:
        if run.status in ("failed", "aborted"):
            yield f"Run {run.number} ({run.variant}, round {run.round}) was not carried out: {run.reason}."
    if not record.columns:  # the scenario's own table has a row for each
        for name, reason in record.left_out.items():
            yield f"{name} is left out: {reason}."


def _find_missing_values(record: ComparisonRecord, results: Results) -> Iterator[str]:
    """Yield which variants have no value, in a completed run, of what they are ranked or judged by."""
    for each in results.compared:
        for name, runs in record.find_unmeasured(each.subject).items():
            if each.subject in (record.ranked, record.judged_by[name]):
                others = "; its figures are those of the others" if each.standings[name].values else ""
                yield f"{name} has no value of {each.subject.key} in {runs}{others}."


def _describe_judgements(record: ComparisonRecord, results: Results) -> Iterator[str]:
    """Yield which variants are judged by another metric than the ranked one, or compared with another variant than the reference."""
    by_subject = {each.subject: each for each in results.compared}
    for name, subject in record.judged_by.items():
        if subject != record.ranked:
            yield f"{name} is judged by {subject.key}, because it is meant against that."
        if record.references[name] != record.names[0]:
            difference = by_subject[subject].standings[name].own_difference
            figures = f": the difference of {subject.key} is {format_difference(difference)}" if difference else ""
            p = f", p = {format_p(difference.adjusted_p)}" if difference and difference.adjusted_p is not None else ""
            yield f"{name} is compared with {record.references[name]}, because it is meant against its problem{figures}{p}."
