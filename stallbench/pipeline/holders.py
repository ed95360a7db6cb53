"""Which transactions, slots and replicas held the horizon, from when to when, and which was the oldest?"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from stallbench.pipeline.time_axis import TimeAxis
from stallbench.records.nanoseconds import NS_PER_S
from stallbench.run.record import RunRecord

_SUBJECT = r"^holder:([^:]*):(.*)$"
_TEXTS = ("application", "state", "via")
_NUMBERS = ("rank", "pid", "age_s", "age_xids", "catalog_only")
_CLOCK_SLACK_S = 0.5
"""By how much the beginning of the same transaction, computed from its age, may differ between two samples."""


def make_holders(samples: DataFrame, record: RunRecord, axis: TimeAxis) -> DataFrame:
    """Return a row for each stay of a holder: consecutive samples of the horizon that find it in the same transaction.

    A stay begins when its transaction began, by its age when it was first seen; a slot has no age, so its stay begins when it was first
    seen. It ends when it was last seen. From each sample that ranks it first to the next sample, it is the oldest; a holder that holds
    back only catalog tables never is.
    """
    polls = samples.filter("subject = 'server' AND metric = 'holders'").select("metric", "t_ns").distinct()
    in_time = Window.partitionBy("metric").orderBy("t_ns")
    polls = polls.select(
        "t_ns", F.row_number().over(in_time).alias("poll"), (F.lead("t_ns").over(in_time) - F.col("t_ns")).alias("until_next_ns")
    )
    seen = _find_holders(samples).join(F.broadcast(polls), "t_ns")
    same = Window.partitionBy("server", "kind", "holder").orderBy("t_ns")
    missed = F.col("poll") - F.lag("poll").over(same) > 1
    began_s = F.col("t_ns") / NS_PER_S - F.col("age_s")
    is_another = began_s > F.lag(began_s).over(same) + _CLOCK_SLACK_S
    begins = F.when(missed | is_another, 1).otherwise(0)
    stays = seen.withColumn("begins", begins).withColumn("stay", F.sum("begins").over(same))
    oldest_ns = F.when((F.col("rank") == 0) & (F.col("catalog_only") == 0), F.col("until_next_ns"))
    first_age_ns = F.coalesce(F.min_by("age_s", "t_ns"), F.lit(0)) * NS_PER_S
    summarized = stays.groupBy("server", "kind", "holder", "stay").agg(
        *(F.max_by(name, "t_ns").alias(name) for name in (*_TEXTS, "pid")),
        (F.max("catalog_only") > 0).alias("catalog_only"),
        (F.min("t_ns") - first_age_ns.cast("long")).alias("from_ns"),
        F.max("t_ns").alias("to_ns"),
        F.max("age_s").alias("max_age_s"),
        F.max("age_xids").alias("max_age_xids"),
        (F.coalesce(F.sum(oldest_ns), F.lit(0)) / NS_PER_S).alias("oldest_s"),
    )
    return summarized.select(
        "*",
        axis.t_s(F.col("from_ns")).alias("from_s"),
        axis.t_s(F.col("to_ns")).alias("to_s"),
        _name_longrunner(record).alias("longrunner"),
    )


def _find_holders(samples: DataFrame) -> DataFrame:
    """Put the samples of one holder at one moment into one row."""

    def of(metric: str, column: str) -> Column:
        return F.max(F.when(F.col("metric") == metric, F.col(column))).alias(metric)

    texts = [F.coalesce(of(name, "value"), F.lit("")).alias(name) for name in _TEXTS]
    return (
        samples.filter(F.col("subject").rlike(_SUBJECT))
        .groupBy(
            F.col("source").alias("server"),
            F.regexp_extract("subject", _SUBJECT, 1).alias("kind"),
            F.regexp_extract("subject", _SUBJECT, 2).alias("holder"),
            "t_ns",
        )
        .agg(*texts, *(of(name, "number") for name in _NUMBERS))
    )


def _name_longrunner(record: RunRecord) -> Column:
    """Return the name of the longrunner, if a holder is one: by its application name, or by the key of the holder in the longrunner's evidence."""
    name = F.lit(None).cast("string")
    for longrunner in record.longrunners:
        is_it = F.substring_index("application", ":", -1) == longrunner.name
        kind, key = longrunner.evidence.get("kind"), longrunner.evidence.get("key")
        if kind and key:
            is_it |= (F.col("kind") == kind) & (F.col("holder") == key)
        name = F.when(is_it, longrunner.name).otherwise(name)
    return name
