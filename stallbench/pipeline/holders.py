"""Who held the horizon, from when to when; and which faults and longrunners were in force."""

from __future__ import annotations

from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import BooleanType, DoubleType, LongType, StringType, StructField, StructType

from stallbench.pipeline.records import RunFacts, as_number

_STAYED_S = 1.0
"""Who held the horizon for less is a worker at its work."""
_LONGRUNNER = r"^stallbench:longrunner:(.+)$"

_FAULTS = StructType(
    [
        StructField("name", StringType()),
        StructField("kind", StringType()),
        StructField("target", StringType()),
        StructField("phase", StringType()),
        StructField("planned_start_s", DoubleType()),
        StructField("start_ns", LongType()),
        StructField("proven_ns", LongType()),
        StructField("end_ns", LongType()),
        StructField("from_s", DoubleType()),
        StructField("to_s", DoubleType()),
        StructField("held", BooleanType()),
    ]
)


def make_holders(samples: DataFrame, facts: RunFacts, start_ns: int) -> DataFrame:
    """Return each holder's stay, by its first and last sample; ``oldest_s`` is for how long it was the oldest of all."""
    held = samples.where((F.col("collector") == "horizon") & F.col("subject").startswith("holder:"))
    stays = held.groupBy("source", "subject").agg(
        *[
            F.max_by(_text(name), F.when(_text(name).isNotNull(), F.col("t_ns"))).alias(name)
            for name in ("kind", "application", "state", "via")
        ],
        F.max(as_number("pid")).cast("int").alias("pid"),
        (F.max(as_number("catalog_only")) == 1).alias("catalog_only"),
        F.min("t_ns").alias("from_ns"),
        F.max("t_ns").alias("to_ns"),
        F.max(as_number("age_s")).alias("max_age_s"),
        F.max(as_number("age_xids")).cast("long").alias("max_age_xids"),
        (F.sum(F.when(as_number("rank") == 0, 1).otherwise(0)) * facts.interval_s).alias("oldest_s"),
    )
    stayed_s = (F.col("to_ns") - F.col("from_ns")) / 1e9
    return stays.where(F.coalesce("max_age_s", stayed_s) >= _STAYED_S).select(
        F.col("source").alias("server"),
        F.regexp_replace("subject", "^holder:[^:]+:", "").alias("holder"),
        "kind",
        "pid",
        F.coalesce("application", F.lit("")).alias("application"),
        "state",
        F.coalesce("via", F.lit("")).alias("via"),
        "catalog_only",
        "from_ns",
        "to_ns",
        ((F.col("from_ns") - start_ns) / 1e9).alias("from_s"),
        ((F.col("to_ns") - start_ns) / 1e9).alias("to_s"),
        "max_age_s",
        "max_age_xids",
        "oldest_s",
        _longrunner(facts).alias("longrunner"),
    )


def make_faults(spark: SparkSession, facts: RunFacts, start_ns: int) -> DataFrame:
    """Return the faults and longrunners of ``run.json`` with their planned and real times."""
    planned = {phase["name"]: float(phase["planned_start_s"]) for phase in facts.content["phases"]}
    rows = [_fault_row(entry, planned, start_ns) for key in ("faults", "longrunners") for entry in facts.content[key]]
    return spark.createDataFrame(rows, _FAULTS)


def _fault_row(entry: dict[str, Any], planned: dict[str, float], start_ns: int) -> tuple[Any, ...]:
    began_ns = entry["proven_ns"] or entry["start_ns"]
    ended_ns = entry["released_ns"] or entry["end_ns"]
    return (
        entry["name"],
        entry["kind"],
        entry["on"],
        entry["phase"],
        planned.get(entry["phase"]),
        entry["start_ns"],
        entry["proven_ns"],
        entry["end_ns"],
        (began_ns - start_ns) / 1e9,
        (ended_ns - start_ns) / 1e9 if ended_ns else None,
        entry["held"],
    )


def _text(metric: str) -> Any:
    return F.when(F.col("metric") == metric, F.col("value"))


def _longrunner(facts: RunFacts) -> Any:
    """Name the longrunner by the application of its backend, or by what its slot or prepared transaction is called."""
    name = F.nullif(F.regexp_extract(F.coalesce("application", F.lit("")), _LONGRUNNER, 1), F.lit(""))
    for entry in facts.content["longrunners"]:
        evidence = entry["evidence"] or {}
        outlasting = evidence.get("gid") or evidence.get("slot")
        if outlasting:
            name = F.when(F.col("subject") == f"holder:{evidence['kind']}:{outlasting}", F.lit(entry["name"])).otherwise(name)
    return name
