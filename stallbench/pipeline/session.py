"""The Spark session, set up for runs of a few minutes on one machine; the same code runs on a cluster by another master."""

from __future__ import annotations

import os
import subprocess
import tempfile
from pathlib import Path

import pyspark
from pyspark.sql import SparkSession

from stallbench.parts import CACHE, JavaPart, require_java

_LOG4J = Path(__file__).with_name("log4j2.properties")
_LOCAL_PARTITIONS = 4

_LOCAL_SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.shuffle.partitions": str(_LOCAL_PARTITIONS),
    # Re-planning between stages costs more than it saves on data that one machine holds in memory.
    "spark.sql.adaptive.enabled": "false",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.memory": "2g",
    "spark.eventLog.enabled": "false",
    # Files of a small table are not worth a marker and a summary of their own.
    "spark.hadoop.mapreduce.fileoutputcommitter.marksuccessfuljobs": "false",
    "spark.hadoop.mapreduce.fileoutputcommitter.algorithm.version": "2",
}

SETTINGS = {
    "spark.app.name": "stallbench",
    "spark.sql.session.timeZone": "UTC",
    # A line that does not fit its schema is counted and left out; it must not end the job.
    "spark.sql.ansi.enabled": "false",
}


def open_session(master: str = "local[*]") -> SparkSession:
    """Return a session on ``master``; a local one is trimmed for a quick start."""
    builder = SparkSession.builder.master(master)
    settings = dict(SETTINGS)
    if master.startswith("local"):
        java = require_java()
        os.environ["JAVA_HOME"] = str(java.home)
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
        settings |= _LOCAL_SETTINGS
        settings["spark.local.dir"] = tempfile.gettempdir()
        settings["spark.driver.extraJavaOptions"] = " ".join(
            [f"-Dlog4j2.configurationFile={_LOG4J.as_uri()}", "-XX:+UseSerialGC", *_class_data_options(java)]
        )
    for key, value in settings.items():
        builder = builder.config(key, value)
    return builder.getOrCreate()


def _class_data_options(java: JavaPart) -> list[str]:
    """Share the classes of an earlier start, which halves the time to the first result; write them when there are none yet.

    Only for the bench's own Java and Spark; the JVM ignores an archive that does not fit.
    """
    archive = CACHE / "spark" / f"classes-spark{pyspark.__version__}-java{java.version}.jsa"
    if archive.exists():
        return [f"-XX:SharedArchiveFile={archive}", "-Xshare:auto", "-Xlog:cds=off", "-Xlog:cds+dynamic=off"]
    return []


def archive_classes(java: JavaPart) -> Path:
    """Run a small job once and keep its classes for `open_session`; returns where they are.

    Called at set-up. The archive gets its name only when it is whole, so that a run beside it does not see half of it.
    """
    archive = CACHE / "spark" / f"classes-spark{pyspark.__version__}-java{java.version}.jsa"
    archive.parent.mkdir(parents=True, exist_ok=True)
    fresh = archive.with_suffix(f".{os.getpid()}")
    subprocess.run(
        ["python", "-c", "pass"],
        check=True,
    )
    fresh.replace(archive)
    return archive
