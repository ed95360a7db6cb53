"""The run second by second."""

from __future__ import annotations

import numpy as np
import pandas as pd

from stallbench.measures import MEASURES
from stallbench.pipeline.measurements import counted_measures, sampled_measures
from stallbench.pipeline.statistics import AMOUNT
from stallbench.pipeline.time_axis import FIRST_INTERVAL, TimeAxis
from stallbench.records.nanoseconds import NS_PER_S


def make_windows(figures: pd.DataFrame, axis: TimeAxis, first_ns: int | None) -> pd.DataFrame:
    """Return a row for each second from the first record or second 0 to the last record, from its figures.

    ``first_ns``: time of the first record; none if there is no record. A second belongs to the phase that contains its middle. A count is 0 in a
    second in which nothing happened. A sampled measure has its last value in the second; it is missing without a sample.
    """
    of_seconds = figures[figures["scope"] < FIRST_INTERVAL]
    metric = of_seconds["measure"] + "." + of_seconds["statistic"]
    found = of_seconds.assign(metric=metric).pivot(index="scope", columns="metric", values="value")
    seconds = found.reindex(sorted({*found.index, *_list_seconds(axis, first_ns)}))

    def figure(measure: str, statistic: str) -> pd.Series:
        metric = f"{measure}.{statistic}"
        return seconds[metric] if metric in seconds else pd.Series(np.nan, index=seconds.index)

    t_ns = seconds.index.to_numpy(dtype="int64") * NS_PER_S + axis.start_ns
    columns: dict[str, object] = {"t_s": seconds.index, "t_ns": t_ns}
    columns["phase"] = axis.phase_of(pd.Series(t_ns + NS_PER_S // 2, index=seconds.index))
    for name, counted in counted_measures().items():
        columns[name] = figure(counted, AMOUNT).fillna(0)
    for name, measure in MEASURES.items():
        for each in measure.by_second:
            if each in measure.quotients:
                below = figure(measure.divided_by, AMOUNT)
                columns[f"{name}_{each}"] = figure(name, AMOUNT) / below.where(below != 0)
            else:
                columns[f"{name}_{each}"] = figure(name, AMOUNT if each == "count" else each)
    columns |= {name: figure(name, "last") for name in sampled_measures()}
    return pd.DataFrame(columns, index=seconds.index).reset_index(drop=True)


def _list_seconds(axis: TimeAxis, first_ns: int | None) -> set[int]:
    """Return the seconds of the run's records, and those in which an interval begins."""
    begun = {(interval.start_ns - axis.start_ns) // NS_PER_S for interval in axis.intervals}
    if first_ns is None:
        return begun
    first_s, last_s = ((t_ns - axis.start_ns) // NS_PER_S for t_ns in (first_ns, axis.last_ns))
    return begun | {*range(min(0, first_s), last_s + 1)}
