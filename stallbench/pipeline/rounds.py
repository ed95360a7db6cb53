"""In which round is a job claimed, if workers choose among the first N available ones? The ``X`` of the Laravel article.

A round has N *picks*. A pick is an attempt of any worker to reserve a job, successful or not. A job's first round begins when it enters
the window, that is, when fewer than N earlier jobs are unclaimed. The article gives ``E[X] = 1 / (1 - ((N-1)/N)^N)``, about 1.6.
"""

from __future__ import annotations

from collections.abc import Mapping

import pandas as pd
from pyspark.sql import Column, DataFrame, Observation, Window
from pyspark.sql import functions as F

from stallbench.pipeline.failures import PipelineError
from stallbench.pipeline.phases import as_phase_rows
from stallbench.pipeline.positions import add_position
from stallbench.queues.queue import LARGEST_WINDOW
from stallbench.records.events import Event

JOBS_PER_CHUNK = 200_000
"""Jobs are looked at in chunks of so many in the order of their enqueueing, so that no partition ever holds all of them."""


def make_rounds(
    events: DataFrame, jobs: DataFrame, window: int, *, picks: int, partitions: int = 1, jobs_per_chunk: int = JOBS_PER_CHUNK
) -> DataFrame:
    """Return ``round, jobs``: how many jobs were claimed in their first round, their second, ...; ``window`` is N.

    ``picks``: how many there are. ``partitions``: over how many jobs and picks are sorted. Raises `PipelineError` if the window is larger than
    `LARGEST_WINDOW`.
    """
    if window > LARGEST_WINDOW:
        raise PipelineError(
            f"the queue's window is {window}, and rounds are computed for windows of at most {LARGEST_WINDOW} jobs; "
            "give the queue a smaller window, or let it declare none"
        )
    of_jobs = events.filter(F.col("event").isin(Event.CLAIMED, Event.LOST_RACE)).select("t_ns", "process", "event", "job_id")
    in_turn = add_position(of_jobs, ("t_ns", "process", "job_id"), partitions, "pick")
    first_claims = in_turn.filter(F.col("event") == Event.CLAIMED).groupBy("job_id").agg((F.min("pick") + 1).alias("pick"))
    claimed = jobs.filter("first_claimed_ns IS NOT NULL AND enqueue_recorded").join(first_claims, "job_id")
    placed = add_position(claimed.select("job_id", "enqueued_ns", "pick"), ("enqueued_ns", "job_id"), partitions, "position")
    chunked = placed.select("pick", "position", F.floor(F.col("position") / jobs_per_chunk).alias("chunk"))
    if picks > jobs_per_chunk:
        chunked = chunked.persist()
        chunked = chunked.unionByName(_carry_over(chunked, window))
    earlier = Window.partitionBy("chunk").orderBy("position").rowsBetween(Window.unboundedPreceding, -1)
    # It enters when all but N - 1 of the earlier ones are claimed; it is there at once if there are fewer.
    entered_after = F.coalesce(F.get(_latest(window).over(earlier), F.lit(window - 1)), F.lit(0))
    with_entry = chunked.withColumn("picks", F.col("pick") - entered_after).filter(F.col("position") >= 0)
    round_number = F.greatest(F.ceil(F.col("picks") / window), F.lit(1))
    return with_entry.groupBy(round_number.alias("round")).agg(F.count("*").alias("jobs"))


def observe_rounds(rounds: DataFrame, seen: Observation) -> DataFrame:
    """Return ``rounds``, and let ``seen`` count what `make_round_metrics` needs while they are being written."""
    total = F.sum(F.col("round") * F.col("jobs"))
    return rounds.observe(seen, F.sum("jobs").alias("jobs"), total.alias("rounds"), F.max("round").alias("max"))


def make_round_metrics(seen: Mapping[str, int | None]) -> pd.DataFrame:
    """Return the mean and the maximum as rows of ``phases``, of the whole run."""
    jobs, rounds = seen["jobs"], seen["rounds"]
    values = {"mean": rounds / jobs, "max": seen["max"]} if jobs and rounds is not None else {}
    return as_phase_rows("claim_round", values, jobs)


def _latest(window: int) -> Column:
    """The latest N picks, from the last one back."""
    return F.max_by("pick", "pick", window)


def _carry_over(chunked: DataFrame, window: int) -> DataFrame:
    """Return, for each chunk, the latest N picks of the jobs in all earlier chunks, as if their jobs were before its first one."""
    # One partition, of a row a chunk.
    earlier = Window.partitionBy().orderBy("chunk").rowsBetween(Window.unboundedPreceding, -1)
    of_earlier = F.sort_array(F.flatten(F.collect_list("latest").over(earlier)), asc=False)
    of_chunks = (
        chunked.groupBy("chunk").agg(_latest(window).alias("latest")).withColumn("carried", F.slice(of_earlier, 1, window))
    )
    return of_chunks.select(F.explode("carried").alias("pick"), F.lit(-1).cast("long").alias("position"), "chunk")
