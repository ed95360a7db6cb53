"""Makes all tables of a run and reads them back: small ones as pandas frames, without Spark."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.storagelevel import StorageLevel

from stallbench.pipeline.holders import make_faults, make_holders
from stallbench.pipeline.jobs import make_conservation, make_duplicates, make_jobs
from stallbench.pipeline.order import make_order
from stallbench.pipeline.phases import make_phases
from stallbench.pipeline.records import name_phase, read_census, read_events, read_facts, read_samples
from stallbench.pipeline.windows import make_windows
from stallbench.records.events import Event

TABLES = (
    "jobs",
    "windows",
    "phases",
    "conservation",
    "duplicates",
    "order",
    "holders",
    "faults",
    "errors",
    "torn",
)
_ROWS_A_FILE = 5_000_000


def make_tables(spark: SparkSession, folder: str) -> None:
    """Make every table of the run in ``folder``, a path that Spark reads; those that are there are replaced."""
    facts = read_facts(spark, folder)
    lines = read_events(spark, folder).persist(StorageLevel.MEMORY_AND_DISK)
    events = lines.where(~F.col("torn"))
    samples = read_samples(spark, folder).persist(StorageLevel.MEMORY_AND_DISK)
    census = read_census(spark, folder)
    seen = events.agg(F.min("t_ns"), F.max("t_ns")).first()
    assert seen is not None
    start_ns = facts.start_ns or seen[0] or 0
    spans = facts.spans(seen[1] or 0)

    jobs = make_jobs(events, census, facts).persist(StorageLevel.MEMORY_AND_DISK)
    duplicates = make_duplicates(jobs, events, facts).persist(StorageLevel.MEMORY_AND_DISK)
    windows = make_windows(events, jobs, samples, spans, start_ns).persist(StorageLevel.MEMORY_AND_DISK)
    tables = {
        "jobs": jobs.drop("excuses"),
        "windows": windows.orderBy("t_s"),
        "phases": make_phases(events, jobs, duplicates, windows, spans),
        "conservation": make_conservation(jobs, events, facts),
        "duplicates": duplicates.orderBy("job_id"),
        "order": make_order(jobs).orderBy("diff"),
        "holders": make_holders(samples, facts, start_ns).orderBy(F.desc("max_age_xids")),
        "faults": make_faults(spark, facts, start_ns),
        "errors": events.where(F.col("event") == Event.ERROR)
        .groupBy(
            name_phase(F.col("t_ns"), spans).alias("phase"),
            "process",
            "event",
            F.split("detail", " ")[0].alias("kind"),
        )
        .count(),
        "torn": lines.groupBy("file").agg(F.count("*").alias("lines"), F.sum(F.col("torn").cast("long")).alias("torn_lines")),
    }
    for name, table in tables.items():
        files = 1 if name != "jobs" else 1 + jobs.count() // _ROWS_A_FILE
        _write(table.coalesce(files), f"{folder}/tables/{name}")


def read_table(folder: Path, name: str) -> pd.DataFrame:
    """Return a table as a frame; raises `FileNotFoundError` if it has not been made.

    ``jobs`` and ``duplicates`` have a row a job: nothing that judges or shows a run needs to read ``jobs``.
    """
    table = folder / "tables" / name
    if not table.is_dir():
        raise FileNotFoundError(f"{table}: this table has not been made; run: stallbench report {folder}")
    return pd.read_parquet(table)


def _write(table: DataFrame, path: str) -> None:
    table.write.mode("overwrite").parquet(path)
