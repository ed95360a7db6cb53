"""Computes statistics of what was sampled, in each second and each interval, as `stallbench.pipeline.statistics` does of events."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from stallbench.pipeline.frames import join_rows
from stallbench.pipeline.measurements import sampled_measures
from stallbench.pipeline.sampled import Samples
from stallbench.pipeline.statistics import AMOUNT
from stallbench.pipeline.time_axis import FIRST_INTERVAL, TimeAxis
from stallbench.records.nanoseconds import NS_PER_S


def summarize_samples(samples: Samples, axis: TimeAxis) -> pd.DataFrame:
    """Return ``scope, measure, statistic, value, count``: of each second the last value and the growth, of each interval everything.

    ``slope`` is by least squares, per second; a counter's amount is its growth.
    """
    moments = measure_each_moment(samples)
    moments = moments.assign(t_s=axis.t_s(moments["t_ns"]))
    seconds = moments.assign(scope=((moments["t_ns"] - axis.start_ns) // NS_PER_S).astype("int64"))
    spans = [
        moments[(moments["t_ns"] >= interval.start_ns) & (moments["t_ns"] < interval.end_ns)].assign(
            scope=FIRST_INTERVAL + number
        )
        for number, interval in enumerate(axis.intervals)
    ]
    in_seconds = _summarize(seconds, ("last", AMOUNT))
    in_intervals = (
        _summarize(join_rows(spans), ("first", "last", "min", "max", "mean", "slope", AMOUNT)) if spans else in_seconds.iloc[:0]
    )
    return join_rows([in_seconds, in_intervals])


def measure_each_moment(samples: Samples) -> pd.DataFrame:
    """Return ``measure, t_ns, value, increase`` of what was sampled, in the order of time; the increase is the growth of a counter since the sample before.

    All samples of one collector at one moment have the same time, so those of several subjects or servers become one. A counter that has become
    smaller was restarted at 0. The first sample of a counter shows no growth.
    """
    singles = _find_singles(samples)
    before = singles.groupby(["measure", "source", "subject"], sort=False)["value"].shift()
    grown = singles["value"].where(singles["value"] < before, singles["value"] - before)
    together = singles.assign(increase=grown).sort_values(["measure", "t_ns", "value"]).groupby(["measure", "t_ns"])
    made = together.agg(sum=("value", "sum"), max=("value", "max"))
    # Fractions are added from the smallest on, so that their sum is the same wherever they were.
    made["increase"] = (
        singles.assign(increase=grown).sort_values("increase").groupby(["measure", "t_ns"])["increase"].sum(min_count=1)
    )
    sums = {name for name, source in sampled_measures().items() if source.combine == "sum"}
    made = made.reset_index()
    return made.assign(value=made["sum"].where(made["measure"].isin(sums), made["max"])).drop(columns=["sum", "max"])


def _find_singles(samples: Samples) -> pd.DataFrame:
    """Return ``t_ns, source, subject, measure, value`` of each sample of a measure, in the order of time."""
    sampled = sampled_measures()
    of_subject = {f"{source.subject}:{source.metric or name}": name for name, source in sampled.items() if source.subject}
    of_any = {source.metric or name: name for name, source in sampled.items() if not source.subject}
    wanted = {key.partition(":")[2] for key in of_subject} | of_any.keys()
    table = samples.table
    is_wanted = pc.and_(pc.is_in(table["metric"].cast(pa.string()), pa.array(sorted(wanted))), pc.is_valid(table["number"]))
    found: pd.DataFrame = table.select(["t_ns", "source", "subject", "metric", "number"]).filter(is_wanted).to_pandas()
    kinds = found["subject"].astype("object").map({one: one.partition(":")[0] for one in found["subject"].cat.categories})
    kinds = kinds.astype("object")  # without any sample there is no text either
    metric = found["metric"].astype("object")
    measure = (kinds + ":" + metric).map(of_subject)
    found["measure"] = measure.where(measure.notna(), metric.map(of_any))
    found = found.dropna(subset=["measure"]).rename(columns={"number": "value"})
    found = found.astype({"source": "object", "subject": "object", "measure": "object"})
    return found.sort_values("t_ns", kind="stable", ignore_index=True)


def _summarize(placed: pd.DataFrame, statistics: tuple[str, ...]) -> pd.DataFrame:
    """Return the figures of moments, which are in the order of time in each ``scope`` and ``measure``."""
    groups = placed.groupby(["scope", "measure"], sort=False)
    values = groups["value"]
    found: dict[str, Callable[[], pd.Series]] = {
        "first": values.first,
        "last": values.last,
        "min": values.min,
        "max": values.max,
        "mean": values.mean,
        "slope": lambda: _find_slopes(placed),
        AMOUNT: lambda: groups["increase"].sum(min_count=1),
    }
    figures = pd.DataFrame({statistic: found[statistic]() for statistic in statistics}).assign(count=values.count())
    rows = figures.reset_index().melt(["scope", "measure", "count"], var_name="statistic", value_name="value")
    return rows.dropna(subset=["value"])


def _find_slopes(placed: pd.DataFrame) -> pd.Series:
    """Return the slope of each group by least squares, per second; missing if all its moments are the same."""
    keys = [placed["scope"], placed["measure"]]
    t_s = placed["t_s"] - placed["t_s"].groupby(keys).transform("mean")
    values = placed["value"] - placed["value"].groupby(keys).transform("mean")
    spread = (t_s * t_s).groupby(keys, sort=False).sum()
    return ((t_s * values).groupby(keys, sort=False).sum() / spread.where(spread > 0, np.nan)).rename("slope")
