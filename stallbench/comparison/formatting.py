"""How figures of a comparison are written, the same on the terminal and in the pages."""

from __future__ import annotations

from stallbench.comparison.ranking import Agreement
from stallbench.comparison.standings import Standing
from stallbench.comparison.statistics import Difference
from stallbench.verdicts.expectations import format_value

NOT_ENOUGH = "not enough rounds"


def format_median(standing: Standing) -> str:
    """Return the median, or that there is none."""
    return format_value(standing.spread.median) if standing.spread else "no data"


def format_spread(standing: Standing) -> str:
    """Return the smallest and the greatest value; nothing if there is only one."""
    spread = standing.spread
    return f"{format_value(spread.low)} to {format_value(spread.high)}" if spread and spread.rounds > 1 else ""


def format_difference(difference: Difference | None) -> str:
    """Return the mean difference with its interval, or that there are not enough rounds for one."""
    if difference is None:
        return ""
    if difference.low is None or difference.high is None:
        return f"{_signed(difference.mean)} ({NOT_ENOUGH})"
    return f"{_signed(difference.mean)} ({_signed(difference.low)} to {_signed(difference.high)})"


def describe_significance(standing: Standing) -> str:
    """Return whether a variant really differs from the reference: ``better``, ``worse``, ``no``, or nothing where it cannot be said."""
    if standing.difference is None or standing.difference.is_significant is None:
        return ""
    return {True: "better", False: "worse", None: "no"}[standing.better]


def describe_agreement(agreement: Agreement) -> str:
    """Return in one sentence how far the order is the published one, and where it is not."""
    count = len(agreement.common)
    if agreement.spearman is None or agreement.kendall is None:
        far = (
            f"{agreement.where}: too few figures to say whether the order agrees"
            if count < 3
            else f"{agreement.where}: all equal"
        )
    else:
        far = f"{agreement.where}: Spearman {agreement.spearman:.2f}, Kendall {agreement.kendall:.2f} over {count} variants"
    if not agreement.disagreements:
        return f"{far}; no pair is in another order." if count > 1 else f"{far}."
    certainty = {True: "", False: " (not told apart here)", None: f" ({NOT_ENOUGH})"}
    pairs = [f"{pair.ahead} before {pair.behind}{certainty[pair.real]}" for pair in agreement.disagreements]
    return f"{far}; in another order than published: {', '.join(pairs)}."


def _signed(value: float) -> str:
    text = format_value(abs(value))
    return text if text == "0" else f"{'−' if value < 0 else '+'}{text}"
