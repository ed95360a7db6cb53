"""Every metric of `stallbench.measures` in every interval: each phase, and the whole run."""

from __future__ import annotations

from collections.abc import Mapping

import pandas as pd

from stallbench.measures import MEASURES, WHOLE_RUN, metric_names
from stallbench.pipeline.frames import join_rows
from stallbench.pipeline.measurements import counted_measures, sampled_measures
from stallbench.pipeline.statistics import AMOUNT
from stallbench.pipeline.time_axis import FIRST_INTERVAL, TimeAxis

COLUMNS = ["phase", "measure", "statistic", "value", "count"]


def make_phases(figures: pd.DataFrame, axis: TimeAxis) -> pd.DataFrame:
    """Return ``phase, measure, statistic, value, count``; ``count`` is the number of events or samples behind the value.

    A count is 0 in an interval without such events. A distribution, a series or a counter without any value has no row.
    """
    names = [interval.name for interval in axis.intervals]
    found = figures[figures["scope"] >= FIRST_INTERVAL]
    found = join_rows([found, _find_silent(found, axis)])
    number = found["scope"] - FIRST_INTERVAL
    found = found.assign(phase=[names[each] for each in number])
    seconds = number.map({each: interval.duration_s or None for each, interval in enumerate(axis.intervals)}).astype("float64")
    # The amount of a measure may be the count of another one (`counted_measures`).
    amounts = {counted: name for name, counted in counted_measures().items()}
    amounts |= {name: name for name, source in sampled_measures().items() if source.is_counter}
    is_amount = found["statistic"] == AMOUNT
    counted = found[is_amount].assign(measure=found["measure"].map(amounts), statistic="count")
    rates = counted.assign(statistic="rate", value=counted["value"] / seconds)
    made = join_rows([found[~is_amount], counted, rates]).dropna(subset=["measure", "value"])
    divided = {f"{measure.name}.{statistic}" for measure in MEASURES.values() for statistic in measure.quotients}
    declared = set(metric_names()) - divided
    return made.loc[(made["measure"] + "." + made["statistic"]).isin(declared), COLUMNS]


def as_phase_rows(measure: str, values: Mapping[str, float | None], count: int | None) -> pd.DataFrame:
    """Return the statistics ``values`` of a measure, of the whole run, as rows of ``phases``."""
    rows = [(WHOLE_RUN, measure, statistic, value, count) for statistic, value in values.items()]
    return pd.DataFrame(rows, columns=COLUMNS).astype({"value": "float64"})


def _find_silent(figures: pd.DataFrame, axis: TimeAxis) -> pd.DataFrame:
    """Return an amount of 0 for each measure that counts events and each interval in which there were none."""
    there = set(figures.loc[figures["statistic"] == AMOUNT, ["scope", "measure"]].itertuples(index=False, name=None))
    counted = list(dict.fromkeys(counted_measures().values()))
    missing = [
        (FIRST_INTERVAL + number, measure)
        for number, interval in enumerate(axis.intervals)
        if interval.duration_s > 0
        for measure in counted
        if (FIRST_INTERVAL + number, measure) not in there
    ]
    silent = pd.DataFrame(missing, columns=["scope", "measure"])
    return silent.assign(statistic=AMOUNT, value=0.0, count=0)
