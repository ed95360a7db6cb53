"""Jobs that had to wait for something: was any claimed before it was allowed to be?

A violation counts only if it is certain even when a process wrote its record late. Two facts are certain: if one producer enqueued two jobs of
a FIFO queue, the earlier one was in the queue first; and a completion was requested after its job's `worked` record.
"""

from __future__ import annotations

from functools import reduce
from typing import Any

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from stallbench.pipeline.tables import EXAMPLES
from stallbench.records.events import Event


def find_preconditions(events: DataFrame) -> DataFrame:
    """Return ``job_id, producer, kind, subject`` of each job that was enqueued with something to wait for, or into a queue or with a key that was recorded."""
    kind, subject = (F.regexp_extract("detail", r"^(fifo|due|after|alone|queue|key):(.+)$", group) for group in (1, 2))
    enqueued = events.filter((F.col("event") == Event.ENQUEUED) & F.col("detail").isNotNull())
    found = enqueued.select("job_id", F.col("process").alias("producer"), kind.alias("kind"), subject.alias("subject"))
    return found.filter("kind <> ''")


def make_waiting(preconditions: DataFrame, events: DataFrame, jobs: DataFrame) -> list[dict[str, Any]]:
    """Return a row for each rule that jobs of the run were under: ``rule, jobs, claimed, broken, examples``."""
    claimed = preconditions.join(jobs.select("job_id", "first_claimed_ns"), "job_id")
    concerned = preconditions.select("job_id").unionByName(
        preconditions.filter("kind = 'after'").select(F.col("subject").cast("long").alias("job_id"))
    )
    executions = _find_executions(events.join(concerned, "job_id", "left_semi"))
    rules = {
        "fifo_order": _overtaken(claimed),
        "fifo_alone": _overlapping(preconditions, executions, "fifo"),
        "limit_alone": _overlapping(preconditions, executions, "alone"),
        "not_before_due": claimed.filter("kind = 'due'").withColumn(
            "is_broken", F.col("first_claimed_ns") < F.col("subject").cast("long")
        ),
        "not_before_blocker": _before_blocker(claimed, executions),
    }
    counted = reduce(DataFrame.unionByName, (_count(rule, judged) for rule, judged in rules.items()))
    return [row.asDict() for row in counted.collect()]


def _find_executions(events: DataFrame) -> DataFrame:
    """Return ``job_id, claimed_ns, worked_ns``: of each claim, and of the end of its work, null if that never came."""
    claims_and_work = events.filter(F.col("event").isin(Event.CLAIMED, Event.WORKED))
    of_one = Window.partitionBy("job_id", "process").orderBy("t_ns")
    worked_ns = F.lead(F.when(F.col("event") == Event.WORKED, F.col("t_ns"))).over(of_one)
    followed = claims_and_work.select("job_id", "event", F.col("t_ns").alias("claimed_ns"), worked_ns.alias("worked_ns"))
    return followed.filter(F.col("event") == Event.CLAIMED).drop("event")


def _overtaken(claimed: DataFrame) -> DataFrame:
    """Was a later job of the same producer in the same FIFO queue claimed first? One that was never claimed was overtaken, too."""
    # From the last job to the first: a frame that only grows takes one step a row.
    later = Window.partitionBy("subject", "producer").orderBy(F.desc("job_id")).rowsBetween(Window.unboundedPreceding, -1)
    first_of_later = F.min("first_claimed_ns").over(later)
    is_broken = first_of_later.isNotNull() & (F.col("first_claimed_ns").isNull() | (F.col("first_claimed_ns") > first_of_later))
    return claimed.filter("kind = 'fifo'").withColumn("is_broken", is_broken)


def find_overlaps(preconditions: DataFrame, events: DataFrame) -> DataFrame:
    """Return a row for each execution that began while an earlier one with the same limit was still running, with ``claimed_ns``."""
    limited = preconditions.filter("kind = 'alone'")
    executions = _find_executions(events.join(limited.select("job_id"), "job_id", "left_semi"))
    return _judge_overlapping(limited, executions).filter("is_broken")


def _overlapping(preconditions: DataFrame, executions: DataFrame, kind: str) -> DataFrame:
    """Did an execution begin while an earlier one in the same FIFO queue, or with the same limit, was still running?"""
    judged = _judge_overlapping(preconditions.filter(F.col("kind") == kind), executions)
    return judged.groupBy("job_id").agg(F.min("claimed_ns").alias("first_claimed_ns"), F.max("is_broken").alias("is_broken"))


def _judge_overlapping(preconditions: DataFrame, executions: DataFrame) -> DataFrame:
    """Return each execution of these jobs, and whether an earlier one was still running. The execution of a dead process is not running."""
    earlier = Window.partitionBy("subject").orderBy("claimed_ns").rowsBetween(Window.unboundedPreceding, Window.currentRow - 1)
    is_broken = F.coalesce(F.max("worked_ns").over(earlier) > F.col("claimed_ns"), F.lit(False))
    return preconditions.join(executions, "job_id", "left").withColumn("is_broken", is_broken)


def _before_blocker(claimed: DataFrame, executions: DataFrame) -> DataFrame:
    """Was it claimed before the work of the job that it waited for was done?"""
    done = executions.groupBy(F.col("job_id").alias("blocker")).agg(F.min("worked_ns").alias("done_ns"))
    blocked = claimed.filter("kind = 'after'").join(done, F.col("subject").cast("long") == F.col("blocker"), "left")
    is_early = F.col("done_ns").isNull() | (F.col("first_claimed_ns") < F.col("done_ns"))
    return blocked.withColumn("is_broken", F.col("first_claimed_ns").isNotNull() & is_early)


def _count(rule: str, judged: DataFrame) -> DataFrame:
    broken: Column = F.coalesce("is_broken", F.lit(False))
    wrong = F.when(broken, F.col("job_id"))
    counted = judged.agg(
        F.count("*").alias("jobs"),
        F.count("first_claimed_ns").alias("claimed"),
        F.count_if(broken).alias("broken"),
        F.coalesce(F.min_by(wrong, wrong, EXAMPLES), F.lit([]).cast("array<long>")).alias("examples"),
    )
    return counted.filter("jobs > 0").select(F.lit(rule).alias("rule"), "jobs", "claimed", "broken", "examples")
