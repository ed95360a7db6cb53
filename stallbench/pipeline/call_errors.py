"""What calls raised, by kind: never only how often."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from stallbench.pipeline.time_axis import TimeAxis
from stallbench.records.events import Event


def make_errors(events: DataFrame, axis: TimeAxis) -> DataFrame:
    """Return a row for each phase, process, event (``error``, or ``retried`` by the queue itself), kind and move, with how often.

    ``kind``: the first word of the detail, an SQLSTATE or the driver's class. ``move``: ``claim``, ``complete``, ``enqueue`` or ``recover``
    if the detail goes on with ``in <move>``, else empty.
    """
    detail = F.coalesce("detail", F.lit(""))
    return (
        events.filter(F.col("event").isin(Event.ERROR, Event.RETRIED))
        .groupBy(
            axis.phase(F.col("t_ns")).alias("phase"),
            "process",
            "event",
            F.regexp_extract(detail, r"^([^\s:]*)", 1).alias("kind"),
            F.regexp_extract(detail, r"^\S+ in (\w+)", 1).alias("move"),
        )
        .agg(F.count("*").alias("count"))
    )
