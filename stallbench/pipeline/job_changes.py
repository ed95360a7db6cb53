"""How many jobs begin and cease to wait, and begin and cease to be open, in each second: all that stalls and recoveries need of the jobs by time."""

from __future__ import annotations

import pandas as pd
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from stallbench.pipeline.time_axis import TimeAxis

COLUMNS = ("waiting", "open", "due")


def count_changes(jobs: DataFrame, axis: TimeAxis) -> pd.DataFrame:
    """Return a row for each second in which something changes, by ``t_s``.

    ``waiting``: by how much the number of jobs that wait throughout the second is more than in the second before. A job waits from the second after
    it was due until the second of its first claim; a lost one does not. ``open``: by how much the number of open jobs changes in the second. A job
    is open from its due time until its first completion; lost jobs, and those whose completion was not recorded, are left out. ``due``: how many
    jobs become open.
    """
    intended_s, claimed_ns = axis.second(F.col("intended_ns")), F.col("first_claimed_ns")
    # A job is claimed before its time only if clocks disagree.
    claimed_s = axis.second(F.when(claimed_ns.isNotNull(), F.greatest(claimed_ns, F.col("intended_ns"))))
    waits = (F.col("state") != "lost") & F.col("intended_ns").isNotNull() & (claimed_ns.isNull() | (claimed_s > intended_s))
    opens = ~F.col("state").isin("lost", "completed_unrecorded")
    changes = [
        _change(intended_s + 1, waits, waiting=1),
        _change(claimed_s, waits, waiting=-1),
        _change(axis.second(F.coalesce("intended_ns", "first_claimed_ns")), opens, open=1, due=1),
        _change(axis.second(F.col("first_completed_ns")), opens, open=-1),
    ]
    of_jobs = jobs.select(F.inline(F.array(*changes))).filter("t_s IS NOT NULL")
    counted = of_jobs.groupBy("t_s").agg(*(F.sum(name).alias(name) for name in COLUMNS))
    return counted.toPandas().set_index("t_s").astype("int64").sort_index()


def _change(t_s: Column, counts: Column, **by: int) -> Column:
    return F.struct(F.when(counts, t_s).alias("t_s"), *(F.lit(by.get(name, 0)).alias(name) for name in COLUMNS))
