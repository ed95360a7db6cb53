"""The metrics of each phase, and of the whole run: what expectations are held against."""

from __future__ import annotations

from functools import reduce

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from stallbench.metrics import DISTRIBUTION
from stallbench.pipeline.records import WHOLE_RUN, PhaseSpan, is_measured, name_phase
from stallbench.pipeline.windows import (
    ACCURACY,
    COUNTED,
    SAMPLED_COUNTERS,
    SAMPLED_SERIES,
    call_durations,
    count_of,
)
from stallbench.records.events import Event

_QUANTILES = {"p50": 0.5, "p95": 0.95, "p99": 0.99}


def make_phases(
    events: DataFrame, jobs: DataFrame, duplicates: DataFrame, windows: DataFrame, spans: list[PhaseSpan]
) -> DataFrame:
    """Return ``phase, measure, statistic, value, count`` for every metric that there are data for."""
    lengths = _lengths_s(spans)
    parts = [
        _of_events(_in_phases(events, F.col("t_ns"), spans), lengths),
        _of_latency(_in_phases(jobs, F.col("first_completed_ns"), spans)),
        _of_duplicates(_in_phases(_second_completions(events, duplicates), F.col("t_ns"), spans)),
        *_of_samples(windows, spans, lengths),
    ]
    return reduce(DataFrame.unionByName, parts).where(F.col("value").isNotNull())


def _in_phases(rows: DataFrame, t_ns: Column, spans: list[PhaseSpan]) -> DataFrame:
    """Return each row once for its phase and once for the whole run, those outside any phase left out."""
    phases = F.array(name_phase(t_ns, spans), F.when(is_measured(t_ns, spans), F.lit(WHOLE_RUN)))
    return rows.withColumn("phase", F.explode(F.array_compact(phases)))


def _of_events(rows: DataFrame, lengths: Column) -> DataFrame:
    durations = call_durations()
    wide = rows.groupBy("phase").agg(
        *[_distribution(value).alias(measure) for measure, value in durations.items()],
        *[count_of(event).alias(name) for name, event in COUNTED.items()],
    )
    distributions = [
        _entry(measure, name, F.col(measure)[name], F.col(measure)["count"]) for measure in durations for name in DISTRIBUTION
    ]
    counts = [_entry(name, "count", F.col(name), F.col(name)) for name in COUNTED]
    rates = [_entry(name, "rate", F.col(name) / lengths, F.col(name)) for name in COUNTED]
    return _unfold(wide, distributions + counts + rates)


def _of_latency(rows: DataFrame) -> DataFrame:
    wide = rows.groupBy("phase").agg(_distribution(F.col("latency_ms")).alias("latency"))
    return _unfold(wide, [_entry("latency_ms", name, F.col("latency")[name], F.col("latency")["count"]) for name in DISTRIBUTION])


def _second_completions(events: DataFrame, duplicates: DataFrame) -> DataFrame:
    """Return a row for each duplicated job, at its last completion."""
    again = duplicates.where(F.col("completions") > 1).select("job_id")
    completions = events.where(F.col("event") == Event.COMPLETED).join(again, "job_id", "left_semi")
    return completions.groupBy("job_id").agg(F.max("t_ns").alias("t_ns"))


def _of_duplicates(rows: DataFrame) -> DataFrame:
    wide = rows.groupBy("phase").agg(F.count("*").alias("n"))
    return _unfold(wide, [_entry("duplicates", "count", F.col("n"), F.col("n"))])


def _of_samples(windows: DataFrame, spans: list[PhaseSpan], lengths: Column) -> list[DataFrame]:
    rows = _in_phases(windows.drop("phase"), F.col("t_ns") + 500_000_000, spans)
    series = rows.groupBy("phase").agg(*[_series(F.col(name)).alias(name) for name in SAMPLED_SERIES])
    statistics = ("first", "last", "min", "max", "mean", "slope")
    of_series = [_entry(name, s, F.col(name)[s], F.col(name)["count"]) for name in SAMPLED_SERIES for s in statistics]
    counters = rows.groupBy("phase").agg(*[_growth(F.col(name)).alias(name) for name in SAMPLED_COUNTERS])
    of_counters = [_entry(name, "count", F.col(name), F.col(name)) for name in SAMPLED_COUNTERS]
    of_counters.append(_entry("wal_bytes", "rate", F.col("wal_bytes") / lengths, F.col("wal_bytes")))
    return [_unfold(series, of_series), _unfold(counters, of_counters)]


def _distribution(value: Column) -> Column:
    quantiles = F.percentile_approx(value, list(_QUANTILES.values()), ACCURACY)
    return F.struct(
        *[quantiles[index].alias(name) for index, name in enumerate(_QUANTILES)],
        F.max(value).alias("max"),
        F.avg(value).alias("mean"),
        F.count(value).alias("count"),
    )


def _series(value: Column) -> Column:
    t_s = F.when(value.isNotNull(), F.col("t_s"))
    return F.struct(
        F.min_by(value, t_s).alias("first"),
        F.max_by(value, t_s).alias("last"),
        F.min(value).alias("min"),
        F.max(value).alias("max"),
        F.avg(value).alias("mean"),
        F.regr_slope(value, t_s).alias("slope"),
        F.count(value).alias("count"),
    )


def _growth(value: Column) -> Column:
    t_s = F.when(value.isNotNull(), F.col("t_s"))
    return F.max_by(value, t_s) - F.min_by(value, t_s)


def _entry(measure: str, statistic: str, value: Column, count: Column) -> Column:
    return F.struct(
        F.lit(measure).alias("measure"),
        F.lit(statistic).alias("statistic"),
        value.cast("double").alias("value"),
        count.cast("long").alias("count"),
    )


def _unfold(wide: DataFrame, entries: list[Column]) -> DataFrame:
    return wide.select("phase", F.explode(F.array(*entries)).alias("entry")).select("phase", "entry.*")


def _lengths_s(spans: list[PhaseSpan]) -> Column:
    """Return the seconds of the row's phase."""
    measured = [span for span in spans if span.measured]
    lengths = {span.name: (span.end_ns - span.start_ns) / 1e9 for span in spans}
    if measured:
        lengths[WHOLE_RUN] = (measured[-1].end_ns - measured[0].start_ns) / 1e9
    length = F.lit(None).cast("double")
    for name, seconds in lengths.items():
        length = F.when(F.col("phase") == name, F.lit(seconds)).otherwise(length)
    return length
