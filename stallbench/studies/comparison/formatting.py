"""Formats the figures of a comparison, in the same way for the terminal and the pages."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from stallbench.base.number_text import format_value
from stallbench.studies.comparison.ranking import FEWEST_COMMON, Agreement
from stallbench.studies.comparison.record import ComparisonRecord
from stallbench.studies.comparison.results import Results
from stallbench.studies.comparison.standings import Standing
from stallbench.verdicts.baseline.statistics import CONFIDENCE_LEVEL, Difference

NOT_ENOUGH = "not enough rounds"
NOT_RUN = "not run"


@dataclass(frozen=True, slots=True, kw_only=True)
class ScenarioTable:
    """The table that the scenario asks for: a row for each variant, a column for each entry of ``[comparison] columns``."""

    titles: tuple[str, ...]
    rows: Mapping[str, tuple[str, ...]]
    """By variant, the reference first: a cell for each title."""
    not_run: Mapping[str, str]
    """Rows without figures: by name, ``not run`` and why."""


def make_scenario_table(record: ComparisonRecord, results: Results) -> ScenarioTable | None:
    """Return the table; none if the scenario asks for none. A cell is the median of a variant's runs, with their spread if they differ."""
    if not record.columns:
        return None
    compared = {each.subject.key: each for each in results.compared}

    def describe(key: str, name: str) -> str:
        if key not in compared:
            return "no data"
        standing = compared[key].standings[name]
        spread = standing.spread
        differs = spread is not None and spread.low != spread.high
        return f"{format_median(standing)} ({format_spread(standing)})" if differs else format_median(standing)

    return ScenarioTable(
        titles=tuple(record.columns),
        rows={name: tuple(describe(key, name) for key in record.columns.values()) for name in record.names},
        not_run={name: f"{NOT_RUN}: {reason}" for name, reason in record.left_out.items()},
    )


def format_median(standing: Standing) -> str:
    """Return the median, or that there is none."""
    return format_value(standing.spread.median) if standing.spread else "no data"


def format_spread(standing: Standing) -> str:
    """Return the smallest and the greatest value; nothing if there is only one."""
    spread = standing.spread
    return f"{format_value(spread.low)} to {format_value(spread.high)}" if spread and spread.rounds > 1 else ""


def format_difference(difference: Difference | None) -> str:
    """Return the mean difference with its confidence interval, or that there are not enough rounds for one."""
    if difference is None:
        return ""
    if difference.low is None or difference.high is None:
        return f"{_signed(difference.mean)} ({NOT_ENOUGH})"
    return f"{_signed(difference.mean)} ({_signed(difference.low)} to {_signed(difference.high)})"


def format_p(p: float | None) -> str:
    """Return a p-value as text, or nothing if there is none."""
    if p is None:
        return ""
    return "< 0.001" if p < 0.001 else f"{p:.3f}"


def describe_significance(standing: Standing) -> str:
    """Return ``better`` or ``worse`` if a variant differs significantly from the reference, ``no`` if not, nothing if it cannot be decided.

    ``only unadjusted``: it would differ significantly if no other difference were examined.
    """
    if standing.difference is None or standing.difference.is_significant is None:
        return ""
    if standing.better is None and standing.difference.is_significant_alone:
        return "only unadjusted"
    return {True: "better", False: "worse", None: "no"}[standing.better]


def describe_adjustment(results: Results) -> str:
    """Return how the significance of differences is decided; nothing if no difference has a p-value."""
    names = [subject.name for subject in results.deciding]
    deciding = "the ranked metric" if len(names) == 1 else "the metrics that variants are judged by"
    families = [
        f"over {count} comparison{'s' if count > 1 else ''} in {where}"
        for count, where in (
            (results.comparisons, f"{deciding}, {', '.join(names)}"),
            (results.other_comparisons, "the other metrics"),
        )
        if count
    ]
    if not families:
        return ""
    return (
        f"A difference is significant if its p-value is below {1 - CONFIDENCE_LEVEL:.2g} after Holm's adjustment {', and '.join(families)}. "
        "Each confidence interval is of one difference alone, without the adjustment."
    )


def describe_agreement(agreement: Agreement) -> str:
    """Return in one sentence how far the order agrees with a published one, and which pairs are reversed."""
    count = len(agreement.common)
    if agreement.spearman is None or agreement.kendall is None:
        far = (
            f"{agreement.where}: too few figures to decide whether the order agrees"
            if count < FEWEST_COMMON
            else f"{agreement.where}: all equal"
        )
    else:
        far = f"{agreement.where}: Spearman {agreement.spearman:.2f}, Kendall {agreement.kendall:.2f} over {count} variants"
    if not agreement.disagreements:
        return f"{far}; no pair is reversed." if count > 1 else f"{far}."
    certainty = {True: "", False: " (no significant difference here)", None: f" ({NOT_ENOUGH})"}
    pairs = [f"{pair.ahead} before {pair.behind}{certainty[pair.is_significant]}" for pair in agreement.disagreements]
    return f"{far}; reversed here: {', '.join(pairs)}."


def _signed(value: float) -> str:
    text = format_value(abs(value))
    return text if text == "0" else f"{'−' if value < 0 else '+'}{text}"
