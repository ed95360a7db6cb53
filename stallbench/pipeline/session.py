"""The Spark session: on one machine set for the size of the run, on a cluster as the cluster's settings say.

For a small run, most of the time for its tables is the start of the session. A comment at each setting says what it saves. What the user sets by
``--spark-conf`` is never changed; on a cluster, neither is what its ``spark-defaults.conf`` sets.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import MappingProxyType

import psutil
import pyspark
from py4j.protocol import Py4JError
from pyspark import SparkContext
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from stallbench.pipeline.class_archive import use_archive
from stallbench.pipeline.failures import PipelineError, explain
from stallbench.pipeline.java_names import remember_names
from stallbench.pipeline.run_size import EVENTS_PER_PARTITION
from stallbench.pipeline.spark_options import LOCAL, require_master
from stallbench.setup.components import JavaRuntime, require_java

_LOG_SETTINGS = Path(__file__).with_name("log4j2.properties")
_EXIT_S = 120.0
_MEMORY_FOR_LARGE_RUNS = "2g"
_SMALL_PARTITION = 50_000
_INTERPRETED_EVENTS = 20_000

_REQUIRED = {
    # Times are nanoseconds; Spark's conversion of a time must not depend on the machine's time zone.
    "spark.sql.session.timeZone": "UTC",
}
_ANYWHERE = {
    # The percentiles of each second stay in memory, some kB a second, instead of all events being sorted by second first.
    "spark.sql.objectHashAggregate.sortBased.fallbackThreshold": "4096",
}
_ON_ONE_MACHINE = {
    # Until `fit_to` knows how many events there are, only files are counted: a few rows.
    "spark.sql.shuffle.partitions": "1",
    "spark.sql.adaptive.enabled": "false",
    # Compressing what is kept takes longer than reading it again would. On a cluster all events are kept, and the setting is the user's.
    "spark.sql.inMemoryColumnarStorage.compressed": "false",
    # What is written is small; another library, unpacked to disk first, costs more than it saves.
    "spark.sql.parquet.compression.codec": "uncompressed",
}
_AT_START_ANYWHERE = {
    # The output goes to a log.
    "spark.ui.showConsoleProgress": "false",
    # Recording where in Python each column was made, for messages about wrong queries, takes two calls for each column.
    "spark.python.sql.dataFrameDebugging.enabled": "false",
}
_AT_START_ON_ONE_MACHINE = {
    # A pipeline takes seconds, so it needs no web server.
    "spark.ui.enabled": "false",
    "spark.driver.bindAddress": "127.0.0.1",
    # Other users of the machine can reach these ports, and Java would deserialise what they send. Spark generates the secret in its own memory.
    "spark.authenticate": "true",
    "spark.sql.catalogImplementation": "in-memory",
    # Hadoop's other file system for local files writes a checksum beside each file, and starts a process to set the permissions of both.
    "spark.hadoop.fs.file.impl": "org.apache.hadoop.fs.RawLocalFileSystem",
}
_JAVA_FOR_SMALL_RUNS = (
    # Most methods run a few times, so quick compilation is better than optimised code: with ten million events, that takes as long as it saves.
    "-XX:TieredStopAtLevel=1",
    # That compiler alone gets 48 MB for its code, which the tables of five runs in one session fill; then nothing is compiled any more.
    "-XX:ReservedCodeCacheSize=240m",
    # One thread for garbage collection, and a large initial heap, so that no collection runs while classes are still being loaded.
    "-XX:+UseSerialGC",
    "-Xms768m",
    "-XX:MetaspaceSize=256m",
)


@contextmanager
def open_session(
    master: str = LOCAL,
    *,
    small: bool = True,
    java_options: Sequence[str] = (),
    settings: Mapping[str, str] = MappingProxyType({}),
    environment: Mapping[str, str] = MappingProxyType({}),
) -> Iterator[SparkSession]:
    """Start Spark on ``master``; afterwards its Java process has ended and its temporary files are gone.

    ``small``: whether to set the Java process here for runs whose cost is its start (see `is_small`); a cluster's own are as its settings say.
    ``java_options`` are added to the driver's. ``settings``: Spark's, from the user. ``environment``: added to that of the Java process.

    Raises `stallbench.pipeline.failures.MasterError` if ``master`` is none, `stallbench.setup.components.MissingComponentError` without
    Java, `PipelineError` if Spark does not start.
    """
    require_master(master)
    java = require_java()
    is_local = master.startswith("local")
    scratch = tempfile.mkdtemp(prefix=f"stallbench-spark-{os.getpid()}-")
    # No shared performance counters in /tmp; what Java writes to disk goes where it is removed from.
    options = ["-XX:-UsePerfData", f"-Djava.io.tmpdir={scratch}", f"-Dlog4j2.configurationFile=file:{_LOG_SETTINGS}"]
    options += [*use_archive(java), *(_JAVA_FOR_SMALL_RUNS if small else ()), *java_options]
    at_start, at_run_time = dict(_AT_START_ANYWHERE), dict(_ANYWHERE)
    if is_local:
        at_start |= _AT_START_ON_ONE_MACHINE | {"spark.local.dir": scratch, "spark.sql.warehouse.dir": f"{scratch}/warehouse"}
        at_start |= {} if small else {"spark.driver.memory": _MEMORY_FOR_LARGE_RUNS}
        at_run_time |= _ON_ONE_MACHINE
    try:
        spark = _start(master, {**at_start, **settings}, {**_environment(java, options, is_local=is_local), **environment})
        try:
            for name, value in at_run_time.items():
                _set_unless_given(spark, name, value)
            for name, value in _REQUIRED.items():
                spark.conf.set(name, value)
            remember_names(spark)
            yield spark
        finally:
            spark.stop()
    finally:
        # On a cluster Java ends in order, so that it also removes what it wrote where the user's settings say.
        _end_java(at_once=is_local and not java_options)
        shutil.rmtree(scratch, ignore_errors=True)


def fit_to(spark: SparkSession, events: int) -> None:
    """Set the session for so many events: partitions of a shuffle, whether queries are replanned while they run, and compiled.

    Replanning finds the better join for large inputs and costs more than small queries take. Compiling a query costs more than
    interpreting it for a few events takes. On a cluster the number of partitions and replanning are as the cluster's settings say; by
    Spark's defaults it replans, and joins partitions that are too small.
    """
    is_compiled = events > _INTERPRETED_EVENTS
    _set_unless_given(spark, "spark.sql.codegen.wholeStage", str(is_compiled).lower())
    _set_unless_given(spark, "spark.sql.codegen.factoryMode", "FALLBACK" if is_compiled else "NO_CODEGEN")
    if not str(spark.sparkContext.master).startswith("local"):
        return
    cores = spark.sparkContext.defaultParallelism
    partitions = max(1, min(cores, events // _SMALL_PARTITION), -(-events // EVENTS_PER_PARTITION))
    _set_unless_given(spark, "spark.sql.shuffle.partitions", str(partitions))
    _set_unless_given(spark, "spark.sql.adaptive.enabled", str(partitions > cores).lower())


def _set_unless_given(spark: SparkSession, name: str, value: str) -> None:
    """Set what the user has not set: the context's configuration has only what was given when it started."""
    if not spark.sparkContext._conf.contains(name):  # `getConf` copies all settings, one by one
        spark.conf.set(name, value)


def _environment(java: JavaRuntime, options: Sequence[str], *, is_local: bool) -> dict[str, str]:
    """Return the environment in which Spark's launcher starts the driver with Java's ``options``.

    They are not in ``spark.driver.extraJavaOptions``, so that the user's are in force as well.
    """
    given = os.environ.get("SPARK_SUBMIT_OPTS", "")
    quoted = " ".join(f'"{option}"' for option in options)
    environment = {
        "JAVA_HOME": str(java.home),
        "SPARK_SUBMIT_OPTS": f"{quoted} {given}".strip(),
        # The options of the short-lived Java program that only puts together the command line of the real one.
        "SPARK_LAUNCHER_OPTS": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    }
    return environment | ({"SPARK_LOCAL_IP": "127.0.0.1"} if is_local else {})


def _start(master: str, settings: Mapping[str, str], environment: Mapping[str, str]) -> SparkSession:
    before = {name: os.environ.get(name) for name in environment}
    others = set(psutil.Process().children())
    os.environ.update(environment)
    try:
        builder = SparkSession.builder.master(master).appName("stallbench")
        for name, value in settings.items():
            builder = builder.config(name, value)
        return builder.getOrCreate()
    except (PySparkException, Py4JError, OSError) as error:
        hint = (
            ""
            if master.startswith("local")
            else f"; is a Spark {pyspark.__version__} master there, and can it reach this machine?"
        )
        raise PipelineError(f"Spark did not start on {master}: {explain(error).rstrip('.')}{hint}") from None
    except KeyboardInterrupt:
        # PySpark does not know this Java yet, and Java would wait without end for a file in a folder that PySpark has removed.
        for child in set(psutil.Process().children()) - others:
            child.kill()
        raise
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
