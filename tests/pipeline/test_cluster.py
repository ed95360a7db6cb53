"""The tables of a run, made on a cluster: the same rows as on one machine, and Spark's settings are the user's."""

from __future__ import annotations

import json
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from stallbench.pipeline.make import write_tables
from stallbench.pipeline.process import make_tables
from stallbench.pipeline.spark_options import SparkOptions
from stallbench.pipeline.tables import TABLES, read_table
from stallbench.run.folder import RunFolder
from tests.pipeline.standalone_cluster import WORKERS, list_java_options, start_standalone_cluster

SAMPLE = Path(__file__).resolve().parents[2] / "reports" / "sample"
SHUFFLE_PARTITIONS = 5

pytestmark = pytest.mark.timeout(900)  # six Java processes on a machine that may be busy with others


@dataclass(frozen=True, slots=True)
class MadeOnCluster:
    """A run whose tables a cluster has made."""

    folder: Path
    log: list[dict[str, Any]]
    """Spark's own log of what it did, one entry an event."""
    scratch: Path
    """The temporary folder of the process that asked the cluster."""

    def events(self, kind: str) -> list[dict[str, Any]]:
        """Return the entries of one kind."""
        return [entry for entry in self.log if entry["Event"].endswith(kind)]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> MadeOnCluster:
    """The sample run, whose tables one master and two workers have made, with a user's ``spark-defaults.conf``."""
    base = tmp_path_factory.mktemp("cluster")
    folder, log, configuration, scratch = base / "run", base / "log", base / "conf", base / "tmp"
    shutil.copytree(SAMPLE, folder, ignore=shutil.ignore_patterns("tables"))
    for path in (log, configuration, scratch):
        path.mkdir()
    (configuration / "spark-defaults.conf").write_text(
        f"spark.driver.host 127.0.0.1\nspark.eventLog.enabled true\nspark.eventLog.dir file:{log}\nspark.eventLog.rolling.enabled false\n"
        "spark.eventLog.compress false\nspark.sql.shuffle.partitions 3\n"
        # As for small runs on one machine: thousands of methods run a few times each.
        f"spark.executor.extraJavaOptions {' '.join(list_java_options())}\n"
    )
    with pytest.MonkeyPatch.context() as patch, start_standalone_cluster(base / "cluster") as master:
        patch.setenv("SPARK_CONF_DIR", str(configuration))
        patch.setenv("PYSPARK_PYTHON", "/nowhere/python")  # no table is computed by Python code
        patch.setenv("TMPDIR", str(scratch))
        make_tables(RunFolder(folder), SparkOptions(master, {"spark.sql.shuffle.partitions": str(SHUFFLE_PARTITIONS)}))
    (events,) = log.iterdir()
    return MadeOnCluster(folder, [json.loads(line) for line in events.read_text().splitlines()], scratch)


@pytest.fixture(scope="module")
def here(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The sample run, whose tables this machine has made."""
    folder = tmp_path_factory.mktemp("here") / "run"
    shutil.copytree(SAMPLE, folder, ignore=shutil.ignore_patterns("tables"))
    write_tables(spark, folder)
    return folder


def rows_of(folder: Path, name: str) -> list[str]:
    """The rows of a table as text, sorted: tables have no order, and their lists cannot be compared."""
    return sorted(repr(row) for row in read_table(folder, name).itertuples(index=False, name=None))


def test_a_cluster_makes_the_same_tables_row_by_row(made: MadeOnCluster, here: Path) -> None:
    assert [name for name in TABLES if rows_of(here, name) != rows_of(made.folder, name)] == []
    assert len(read_table(made.folder, "jobs")) > 1000


def test_both_workers_took_part(made: MadeOnCluster) -> None:
    executors = {entry["Executor ID"] for entry in made.events("SparkListenerExecutorAdded")}
    at_work = {entry["Task Info"]["Executor ID"] for entry in made.events("SparkListenerTaskEnd")}
    assert len(executors) == WORKERS
    assert at_work == executors


def test_on_a_cluster_the_settings_are_those_of_the_user(made: MadeOnCluster) -> None:
    (environment,) = made.events("SparkListenerEnvironmentUpdate")
    settings = environment["Spark Properties"]
    assert settings["spark.driver.host"] == "127.0.0.1", "of spark-defaults.conf"
    assert settings["spark.sql.shuffle.partitions"] == str(SHUFFLE_PARTITIONS), "--spark-conf comes before spark-defaults.conf"
    assert not {"spark.ui.enabled", "spark.sql.adaptive.enabled", "spark.driver.memory", "spark.local.dir"} & set(settings)
    plans = [entry["physicalPlanDescription"] for entry in made.events("SQLExecutionStart")]
    shuffles = [plan for plan in plans if "hashpartitioning" in plan]
    assert shuffles
    assert all("AdaptiveSparkPlan" in plan for plan in shuffles), "Spark replans queries unless a user says otherwise"
    assert any(f", {SHUFFLE_PARTITIONS})" in plan for plan in shuffles)


def test_nothing_is_left_of_the_process_that_asked_the_cluster(made: MadeOnCluster) -> None:
    assert list(made.scratch.iterdir()) == []
