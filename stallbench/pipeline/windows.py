"""The run second by second: what happened in it, and what was last sampled in it."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import IntegerType, LongType

from stallbench.pipeline.records import PhaseSpan, as_number, name_phase
from stallbench.records.events import Event

ACCURACY = 10_000
"""Of ``percentile_approx``: its rank is off by at most one in so many. One method for all sizes, in bounded memory."""

COUNTED = {
    "enqueued": Event.ENQUEUED,
    "claimed": Event.CLAIMED,
    "completed": Event.COMPLETED,
    "failed": Event.FAILED,
    "empty": Event.EMPTY,
    "lost_race": Event.LOST_RACE,
    "errors": Event.ERROR,
}
"""Measures that count events."""

SAMPLED_SERIES = (
    "depth",
    "oldest_job_s",
    "dead_tuples",
    "live_tuples",
    "table_bytes",
    "index_bytes",
    "oldest_transaction_s",
    "horizon_age_s",
    "horizon_age_xids",
    "blocked_backends",
    "replication_lag_bytes",
    "cpu_percent",
)
SAMPLED_COUNTERS = ("wal_bytes", "deadlocks", "conflicts")
"""Counters since the server's start; a phase's count is how much they grew in it."""


def duration_of(*events: Event) -> Column:
    """Milliseconds that the call of one of ``events`` took, null for other events."""
    return F.when(F.col("event").isin(*events), F.col("duration_ns") / 1e6)


def lag_ms() -> Column:
    """Milliseconds by which an enqueue began behind its schedule."""
    began_ns = F.col("t_ns") - F.col("duration_ns")
    return F.when(F.col("event") == Event.ENQUEUED, F.greatest((began_ns - F.col("intended_ns")) / 1e6, F.lit(0.0)))


def call_durations() -> dict[str, Column]:
    """Return the measures that are distributions over events."""
    return {
        "claim_ms": duration_of(Event.CLAIMED),
        "claim_call_ms": duration_of(Event.CLAIMED, Event.EMPTY, Event.LOST_RACE),
        "enqueue_ms": duration_of(Event.ENQUEUED),
        "complete_ms": duration_of(Event.COMPLETED),
        "lag_ms": lag_ms(),
    }


def count_of(event: Event) -> Column:
    """Count the rows of ``event``."""
    return F.sum(F.when(F.col("event") == event, 1).otherwise(0)).cast(LongType())


def make_windows(events: DataFrame, jobs: DataFrame, samples: DataFrame, spans: list[PhaseSpan], start_ns: int) -> DataFrame:
    """Return a row a second, from the first record to the last; ``t_s`` counts from ``start_ns``."""
    durations = call_durations()
    quantiles = {
        "claim_ms": ("p50", "p95", "p99", "max"),
        "claim_call_ms": ("p95",),
        "enqueue_ms": ("p95",),
        "complete_ms": ("p95",),
        "lag_ms": ("p50", "p99"),
    }
    happened = (
        events.withColumn("t_s", _second(F.col("t_ns"), start_ns))
        .groupBy("t_s")
        .agg(
            *[count_of(event).alias(name) for name, event in COUNTED.items()],
            *[
                _quantile(durations[measure], statistic).alias(f"{measure}_{statistic}")
                for measure, statistics in quantiles.items()
                for statistic in statistics
            ],
        )
    )
    finished = (
        jobs.where(F.col("first_completed_ns").isNotNull())
        .withColumn("t_s", _second(F.col("first_completed_ns"), start_ns))
        .groupBy("t_s")
        .agg(*[_quantile(F.col("latency_ms"), name).alias(f"latency_ms_{name}") for name in ("p50", "p95", "p99")])
    )
    sampled = _sample_seconds(samples, start_ns)
    t_ns = F.col("t_s").cast(LongType()) * 1_000_000_000 + F.lit(start_ns)
    windows = happened.join(finished, "t_s", "full").join(sampled, "t_s", "full").withColumn("t_ns", t_ns)
    # A second belongs to the phase that its middle is in.
    windows = windows.withColumn("phase", name_phase(F.col("t_ns") + 500_000_000, spans))
    counts = {name: F.coalesce(F.col(name), F.lit(0)) for name in COUNTED}
    return windows.withColumns(counts).select(
        "t_s",
        "t_ns",
        "phase",
        *COUNTED,
        *[f"{measure}_{statistic}" for measure, statistics in quantiles.items() for statistic in statistics],
        *[f"latency_ms_{name}" for name in ("p50", "p95", "p99")],
        *SAMPLED_SERIES,
        *SAMPLED_COUNTERS,
    )


def _sample_seconds(samples: DataFrame, start_ns: int) -> DataFrame:
    """Return the last value of each second for each sampled series; those of several tables or servers are put together."""
    wanted = samples.where(
        F.col("metric").isin(*SAMPLED_SERIES, *SAMPLED_COUNTERS, "lag_bytes")
        & (F.col("collector") != "own_cost")
        & ~F.col("subject").startswith("process:")
    )
    last = (
        wanted.withColumn("t_s", _second(F.col("t_ns"), start_ns))
        .groupBy("t_s", "source", "subject", "metric")
        .agg(F.max_by("number", "t_ns").alias("number"))
    )
    added_up = {name: F.sum(as_number(name)) for name in (*SAMPLED_SERIES, *SAMPLED_COUNTERS)}
    # The oldest of all servers counts, and the replica that is furthest behind.
    added_up["oldest_transaction_s"] = F.max(as_number("oldest_transaction_s"))
    added_up["replication_lag_bytes"] = F.max(as_number("lag_bytes"))
    return last.groupBy("t_s").agg(*[column.alias(name) for name, column in added_up.items()])


def _second(t_ns: Column, start_ns: int) -> Column:
    return F.floor((t_ns - F.lit(start_ns)) / 1_000_000_000).cast(IntegerType())


def _quantile(value: Column, statistic: str) -> Column:
    if statistic == "max":
        return F.max(value)
    return F.percentile_approx(value, int(statistic[1:]) / 100, ACCURACY)
