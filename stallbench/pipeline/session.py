"""The Spark session. On one machine it has settings for small runs; on a cluster the cluster's settings apply.

For a small run, most of the time for its tables is the start of the session. A comment at each setting says what it saves.
"""

from __future__ import annotations

import os
import re
import shutil
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from py4j.protocol import Py4JError
from pyspark import SparkContext
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from stallbench.pipeline.class_archive import use_archive
from stallbench.pipeline.failures import MasterError, PipelineError, explain
from stallbench.setup.components import require_java

LOCAL = "local[*]"
_MASTER = re.compile(r"local(\[(\*|[1-9]\d*)(, *\d+)?\])?|(spark|k8s)://.+|yarn")
_LOG_SETTINGS = Path(__file__).with_name("log4j2.properties")
_EXIT_S = 120.0
_SMALL_RUN_BYTES = 96 * 1024**2
_MEMORY_FOR_LARGE_RUNS = "2g"
_EVENTS_PER_PARTITION = 500_000
_SMALL_PARTITION = 50_000
_INTERPRETED_EVENTS = 20_000
_BYTES_PER_EVENT = 80

_ANYWHERE = {
    # Times are nanoseconds; Spark's conversion of a time must not depend on the machine's time zone.
    "spark.sql.session.timeZone": "UTC",
    # A pipeline takes seconds, so it needs no web server and no progress bar.
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    # Until `fit_to` knows how many events there are, only files are counted: a few rows.
    "spark.sql.shuffle.partitions": "1",
    # Recording where in Python each column was made, for messages about wrong queries, takes two calls for each column.
    "spark.python.sql.dataFrameDebugging.enabled": "false",
    "spark.sql.adaptive.enabled": "false",
    # The percentiles of each second stay in memory, some kB a second, instead of all events being sorted by second first.
    "spark.sql.objectHashAggregate.sortBased.fallbackThreshold": "4096",
}
_ON_ONE_MACHINE = {
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.sql.catalogImplementation": "in-memory",
    # What is written is small; another library, unpacked to disk first, costs more than it saves.
    "spark.sql.parquet.compression.codec": "uncompressed",
}
_FOR_SMALL_RUNS = {
    # The records fit into memory as they are.
    "spark.sql.inMemoryColumnarStorage.compressed": "false",
}
_JAVA_FOR_SMALL_RUNS = (
    # Thousands of methods run a few times each, so quick compilation is better than optimised code. Bulk work would take twice as long.
    "-XX:TieredStopAtLevel=1",
    # That compiler alone gets 48 MB for its code, which the tables of five runs in one session fill; then nothing is compiled any more.
    "-XX:ReservedCodeCacheSize=240m",
    # One thread for garbage collection, and a large initial heap, so that no collection runs while classes are still being loaded.
    "-XX:+UseSerialGC",
    "-Xms768m",
    "-XX:MetaspaceSize=256m",
)


@contextmanager
def open_session(master: str = LOCAL, *, small: bool = True, java_options: Sequence[str] = ()) -> Iterator[SparkSession]:
    """Start Spark on ``master``; afterwards its Java process has ended and its temporary files are gone.

    ``small``: whether to set a local Spark for runs whose cost is its start (see `is_small`).
    ``java_options`` are added to the driver's.

    Raises `MasterError` if ``master`` is none, `stallbench.setup.components.MissingComponentError` without Java, `PipelineError` if Spark does not start.
    """
    if not _MASTER.fullmatch(master):
        raise MasterError(f'master is "{master}"; expected local[*], local[4], spark://HOST:PORT, k8s://HOST:PORT or yarn')
    java = require_java()
    is_local = master.startswith("local")
    scratch = tempfile.mkdtemp(prefix=f"stallbench-spark-{os.getpid()}-")
    # The options of the short-lived Java program that only puts together the command line of the real one.
    environment = {"JAVA_HOME": str(java.home), "SPARK_LAUNCHER_OPTS": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"}
    if is_local:
        environment["SPARK_LOCAL_IP"] = "127.0.0.1"
    options = [f"-Dlog4j2.configurationFile=file:{_LOG_SETTINGS}", *java_options]
    settings = dict(_ANYWHERE)
    if is_local:
        # No shared performance counters in /tmp; libraries that are unpacked go where they are removed from.
        options += ["-XX:-UsePerfData", f"-Djava.io.tmpdir={scratch}", *use_archive(java)]
        options += _JAVA_FOR_SMALL_RUNS if small else ()
        settings |= _FOR_SMALL_RUNS if small else {"spark.driver.memory": _MEMORY_FOR_LARGE_RUNS}
        settings |= _ON_ONE_MACHINE | {"spark.local.dir": scratch, "spark.sql.warehouse.dir": f"{scratch}/warehouse"}
    settings["spark.driver.extraJavaOptions"] = " ".join(f'"{option}"' for option in options)
    try:
        spark = _start(master, settings, environment)
        try:
            yield spark
        finally:
            spark.stop()
    finally:
        _end_java(at_once=not java_options)
        shutil.rmtree(scratch, ignore_errors=True)


def is_small(run_folder: str | Path) -> bool:
    """Whether a run is on this machine and has up to about a million events."""
    size_bytes = _measure_events(run_folder)
    return size_bytes is not None and size_bytes <= _SMALL_RUN_BYTES


def estimate_events(run_folder: str | Path) -> int:
    """Return about how many events a run has, from the size of its logs; a run that is not on this machine is taken for large."""
    size_bytes = _measure_events(run_folder)
    return _EVENTS_PER_PARTITION if size_bytes is None else size_bytes // _BYTES_PER_EVENT


def _measure_events(run_folder: str | Path) -> int | None:
    if "://" in str(run_folder):
        return None
    return sum(path.stat().st_size for path in Path(run_folder).glob("events/*.csv"))


def fit_to(spark: SparkSession, events: int) -> None:
    """Set the session for so many events: partitions of a shuffle, whether queries are replanned while they run, and compiled.

    Replanning finds the better join for large inputs and costs more than small queries take. Compiling a query costs more than
    interpreting it for a few events takes.
    """
    cores = spark.sparkContext.defaultParallelism
    partitions = max(1, min(cores, events // _SMALL_PARTITION), -(-events // _EVENTS_PER_PARTITION))
    spark.conf.set("spark.sql.shuffle.partitions", str(partitions))
    spark.conf.set("spark.sql.adaptive.enabled", str(partitions > cores).lower())
    is_compiled = events > _INTERPRETED_EVENTS
    spark.conf.set("spark.sql.codegen.wholeStage", str(is_compiled).lower())
    spark.conf.set("spark.sql.codegen.factoryMode", "FALLBACK" if is_compiled else "NO_CODEGEN")


def _start(master: str, settings: Mapping[str, str], environment: Mapping[str, str]) -> SparkSession:
    before = {name: os.environ.get(name) for name in environment}
    os.environ.update(environment)
    try:
        builder = SparkSession.builder.master(master).appName("stallbench")
        for name, value in settings.items():
            builder = builder.config(name, value)
        return builder.getOrCreate()
    except (PySparkException, Py4JError, OSError) as error:
        raise PipelineError(f"Spark did not start on {master}: {explain(error)}") from None
    finally:
        for name, earlier in before.items():
            if earlier is None:
                del os.environ[name]
            else:
                os.environ[name] = earlier


def _end_java(*, at_once: bool) -> None:
    """End the Java process, which PySpark leaves to end by itself some time after this one; ``at_once`` without its last words."""
    gateway = SparkContext._gateway
    if gateway is None:
        return
    java = gateway.proc
    gateway.shutdown()
    if at_once:
        java.kill()
    java.stdin.close()
    try:
        java.wait(_EXIT_S)
    finally:
        java.kill()
        SparkContext._gateway = SparkContext._jvm = None
