"""Counts the errors of calls by phase, process, kind and operation."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from stallbench.pipeline.time_axis import TimeAxis
from stallbench.records.events import ERROR_PATTERN, Event


def make_errors(events: DataFrame, axis: TimeAxis) -> DataFrame:
    """Return a row for each phase, process, event (``error``, or ``retried`` by the queue itself), kind and operation, with its count.

    ``kind``: the code that the detail begins with, an SQLSTATE, an error number or the driver's class. ``operation``: ``claim``,
    ``complete``, ``enqueue``, ``recover`` or ``connect``; empty if the detail does not name one.
    """
    detail = F.coalesce("detail", F.lit(""))
    return (
        events.filter(F.col("event").isin(Event.ERROR, Event.RETRIED))
        .groupBy(
            axis.phase(F.col("t_ns")).alias("phase"),
            "process",
            "event",
            F.regexp_extract(detail, ERROR_PATTERN, 1).alias("kind"),
            F.regexp_extract(detail, ERROR_PATTERN, 2).alias("operation"),
        )
        .agg(F.count("*").alias("count"))
    )
