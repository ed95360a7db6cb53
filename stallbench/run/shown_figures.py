"""The figures of a run that is going on, as text."""

from __future__ import annotations

from typing import NamedTuple

from stallbench.measures import MEASURES, split_metric
from stallbench.run.live_figures import LiveFigures


class ShownFigure(NamedTuple):
    """A figure of the last seconds, as text."""

    label: str
    value: str
    unit: str
    number: float | None = None
    form: str = ""

    def write(self, number: float) -> str:
        """Return another value of the same figure as text."""
        return f"{number:{self.form}}"


def list_shown(figures: LiveFigures) -> list[ShownFigure]:
    """Return the figures that this queue has on all engines, ``?`` if unknown, then those that only this engine has."""
    of_claims = (("claim_ms.p95", figures.claim_ms_p95, ".2f"),) if figures.times_claims else ()
    of_every_engine = (
        ("enqueued.rate", figures.enqueued_rate, ".0f"),
        ("completed.rate", figures.completed_rate, ".0f"),
        ("depth", figures.depth, ","),
        *of_claims,
    )
    of_this_engine = (
        ("dead_tuples", figures.dead_tuples, ","),
        ("history_list_length", figures.history_list_length, ","),
        ("deadlocks", figures.deadlocks, ","),
        ("oldest_transaction_s", figures.oldest_transaction_s, ".0f"),
    )
    return [
        *(_show(*figure) for figure in of_every_engine),
        *(_show(*figure) for figure in of_this_engine if figure[1] is not None),
    ]


def list_shown_on_terminal(figures: LiveFigures) -> list[ShownFigure]:
    """Return the same, and how long the oldest job waits: what users of the queue notice first."""
    oldest = [] if figures.oldest_job_s is None else [_show("oldest_job_s", figures.oldest_job_s, ".1f")]
    return [*oldest, *list_shown(figures)]


def _show(metric: str, value: float | None, form: str) -> ShownFigure:
    """Return a figure with the label and unit of its measure. A ``metric`` without a statistic is the latest sample."""
    name, statistic = split_metric(metric)
    measure = MEASURES[name]
    label = measure.label_of(statistic) if statistic else measure.label
    return ShownFigure(label, "?" if value is None else f"{value:{form}}", measure.unit_of(statistic), value, form)
