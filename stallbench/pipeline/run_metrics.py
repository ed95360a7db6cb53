"""Metrics that are of a whole run only, as rows of the table of phases."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

WHOLE_RUN = "run"


def as_phase_rows(figures: DataFrame, measure: str, statistics: Sequence[str], phase: Column | None = None) -> DataFrame:
    """Return ``phase, measure, statistic, value, count`` from a column for each of ``statistics``, and ``count``.

    ``phase``: that of each row of ``figures``; the whole run if none.
    """
    rows = [
        F.struct(
            F.lit(measure).alias("measure"),
            F.lit(statistic).alias("statistic"),
            F.col(statistic).cast("double").alias("value"),
            F.col("count").cast("long").alias("count"),
        )
        for statistic in statistics
    ]
    return figures.select((F.lit(WHOLE_RUN) if phase is None else phase).alias("phase"), F.inline(F.array(*rows)))
