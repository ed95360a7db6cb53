"""In which round is a job claimed, if workers choose among the first N available ones? The ``X`` of the Laravel article.

A round has N *picks*. A pick is an attempt of any worker to reserve a job, successful or not. A job's first round begins when it enters
the window, that is, when fewer than N earlier jobs are unclaimed. The article gives ``E[X] = 1 / (1 - ((N-1)/N)^N)``, about 1.6.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from stallbench.pipeline.frames import as_phase_rows
from stallbench.pipeline.positions import add_position
from stallbench.records.events import Event

WINDOWS_BACK = 20
"""How many windows of earlier jobs are looked at; those before them are taken to have been claimed. In one window a job is left over with a
probability of about 1/e, so that one in 500 million is."""
_JOBS_PER_CHUNK = 200_000
"""Jobs are looked at in chunks of so many, with those before each that may still have been in the window."""


def make_rounds(events: DataFrame, jobs: DataFrame, window: int, partitions: int = 1) -> DataFrame:
    """Return ``round, jobs``: how many jobs were claimed in their first round, their second, ...; ``window`` is N.

    ``partitions``: over how many jobs and picks are sorted.
    """
    of_jobs = events.filter(F.col("event").isin(Event.CLAIMED, Event.LOST_RACE)).select("t_ns", "process", "event", "job_id")
    picks = add_position(of_jobs, ("t_ns", "process"), partitions, "pick")
    first_claims = picks.filter(F.col("event") == Event.CLAIMED).groupBy("job_id").agg((F.min("pick") + 1).alias("pick"))
    claimed = jobs.filter("first_claimed_ns IS NOT NULL AND enqueue_recorded").join(first_claims, "job_id")
    placed = add_position(claimed.select("job_id", "enqueued_ns", "pick"), ("enqueued_ns", "job_id"), partitions, "position")
    back = WINDOWS_BACK * window
    chunk, in_chunk = F.floor(F.col("position") / _JOBS_PER_CHUNK), F.col("position") % _JOBS_PER_CHUNK
    chunks = F.array_compact(F.array(chunk, F.when(in_chunk >= _JOBS_PER_CHUNK - back, chunk + 1)))
    in_turn = Window.partitionBy("chunk").orderBy("position")
    earlier = F.array_sort(F.collect_list("pick").over(in_turn.rowsBetween(-back, -1)))
    with_earlier = (
        placed.select("pick", "position", chunk.alias("own_chunk"), F.explode(chunks).alias("chunk"))
        .withColumn("earlier", earlier)
        .filter(F.col("chunk") == F.col("own_chunk"))
    )
    picks_in_window = F.col("pick") - _entered_after(F.col("earlier"), window)
    round_number = F.greatest(F.ceil(picks_in_window / window), F.lit(1))
    return with_earlier.groupBy(round_number.alias("round")).agg(F.count("*").alias("jobs"))


def make_round_metrics(rounds: DataFrame) -> DataFrame:
    """Return the mean and the maximum as rows of ``phases``, of the whole run."""
    figures = rounds.agg(
        F.sum("jobs").alias("count"),
        (F.sum(F.col("round") * F.col("jobs")) / F.sum("jobs")).alias("mean"),
        F.max("round").alias("max"),
    ).filter("count IS NOT NULL")
    return as_phase_rows(figures, "claim_round", ("mean", "max"))


def _entered_after(earlier: Column, window: int) -> Column:
    """After which pick a job came into the window: when all but N - 1 of the earlier ones were claimed; 0 if it was there at once."""
    position = F.size(earlier) + 1 - window
    return F.when(position > 0, F.element_at(earlier, position)).otherwise(0)
