"""Metrics that divide one metric by another of the same phase: ``per_job``, ``share``, ``per_call`` and the mean of a counter."""

from __future__ import annotations

from collections.abc import Iterator

import pandas as pd

from stallbench.measures import MEASURES
from stallbench.pipeline.phases import COLUMNS

_JOBS = "completed.count"


def make_ratios(phases: pd.DataFrame) -> pd.DataFrame:
    """Return the rows of ``phases`` for every ratio that a measure declares; none if the divisor is 0 or missing.

    ``per_job``: for a count or a counter, its count; for a series, the difference of its largest and its first value in the phase. Both are
    divided by the jobs completed in the phase. The others: its count divided by the count of another measure (`Measure.divided_by`). A row's
    ``count`` is the divisor.
    """
    rows = []
    for phase, of_phase in phases.groupby("phase"):
        metrics = dict(zip(of_phase["measure"] + "." + of_phase["statistic"], of_phase["value"], strict=True))
        for measure, statistic, above, first, below in _list_ratios():
            subtracted = metrics.get(first) if first else 0.0
            if above in metrics and subtracted is not None and metrics.get(below):
                value = (metrics[above] - subtracted) / metrics[below]
                rows.append((phase, measure, statistic, value, int(metrics[below])))
    return pd.DataFrame(rows, columns=COLUMNS)


def _list_ratios() -> Iterator[tuple[str, str, str, str | None, str]]:
    """Yield the measure and the statistic of each ratio, with the metrics it is made of: ``above`` minus ``first``, if there is one, by ``below``."""
    for measure in MEASURES.values():
        count = f"{measure.name}.count"
        if "per_job" in measure.statistics:
            is_series = "first" in measure.statistics
            above, first = (f"{measure.name}.max", f"{measure.name}.first") if is_series else (count, None)
            yield measure.name, "per_job", above, first, _JOBS
        for statistic in measure.quotients:
            yield measure.name, statistic, count, None, f"{measure.divided_by}.count"
