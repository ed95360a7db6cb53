"""A run's report, made on a cluster: the same rows as on one machine, Spark's settings are the user's, and no secret is shown.

The run is the sample, with trouble added until every table has rows. It is in an object store, and then in a folder.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
import pytest
from pyspark.sql import SparkSession

from stallbench.base.storage.address import open_address
from stallbench.errors import EXIT_FAIL, EXIT_PASS
from stallbench.pipeline.make import write_tables
from stallbench.pipeline.tables import TABLES, read_table
from stallbench.run.upload import upload
from stallbench.verdicts import RunTables, judge
from tests.pipeline.standalone_cluster import WORKERS, list_java_options, start_standalone_cluster
from tests.pipeline.troubled_sample import SAMPLE, copy_with_trouble
from tests.s3_server import ACCESS_KEY, BUCKET, SECRET_KEY, start_s3_server

SHUFFLE_PARTITIONS = 5
WITHIN_S = 1500.0

pytestmark = pytest.mark.timeout(2000)  # eight Java processes on a machine that may be busy with others


@dataclass(frozen=True, slots=True)
class Run:
    """A run without tables and report."""

    name: str
    """As the command is given it."""
    folder: Path
    """Where its files are: an object store keeps its objects as files, too."""
    environment: dict[str, str]
    """The variables with which the command finds it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reported:
    """A run whose report a cluster has made."""

    run: Run
    printed: str
    processes: frozenset[str]
    """The command lines of all processes that ran meanwhile."""
    log: list[dict[str, Any]]
    """Spark's own log of what it did, one entry an event."""
    files: Path
    """Every file of this test: logs, temporary files, objects."""
    scratch: Path
    """The temporary folder of the command."""

    def events(self, kind: str) -> list[dict[str, Any]]:
        """Return the entries of one kind."""
        return [entry for entry in self.log if entry["Event"].endswith(kind)]


@contextmanager
def run_in_folder(files: Path) -> Iterator[Run]:
    copy_with_trouble(files / "run")
    yield Run(str(files / "run"), files / "run", {})


@contextmanager
def run_in_object_store(files: Path) -> Iterator[Run]:
    with run_in_folder(files) as local, start_s3_server(files / "s3") as store:
        with pytest.MonkeyPatch.context() as patch:
            for name, value in store.environment.items():
                patch.setenv(name, value)
            upload(local.folder, open_address(f"s3://{BUCKET}/runs/sample"))
        yield Run(f"s3a://{BUCKET}/runs/sample", store.objects / "runs/sample", store.environment)


@pytest.fixture(
    scope="module",
    params=[pytest.param(each, marks=pytest.mark.long) for each in (run_in_object_store, run_in_folder)],
)
def reported(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Reported:
    """The run, reported by one master and two workers, with a user's ``spark-defaults.conf``."""
    files = tmp_path_factory.mktemp("cluster")
    log, configuration, scratch = files / "log", files / "conf", files / "tmp"
    for path in (log, configuration, scratch):
        path.mkdir()
    (configuration / "spark-defaults.conf").write_text(
        f"spark.driver.host 127.0.0.1\nspark.eventLog.enabled true\nspark.eventLog.dir file:{log}\nspark.eventLog.rolling.enabled false\n"
        "spark.eventLog.compress false\nspark.sql.shuffle.partitions 3\n"
        # As for small runs on one machine: thousands of methods run a few times each.
        f"spark.executor.extraJavaOptions {' '.join(list_java_options())}\n"
    )
    environment = {
        "SPARK_CONF_DIR": str(configuration),
        "PYSPARK_PYTHON": "/nowhere/python",  # no table is computed by Python code
        "TMPDIR": str(scratch),
    }
    setting = f"spark.sql.shuffle.partitions={SHUFFLE_PARTITIONS}"
    with request.param(files) as run, start_standalone_cluster(files / "cluster") as master:
        command = ["report", run.name, "--master", master, "--spark-conf", setting]
        printed, processes = watch_stallbench(command, {**run.environment, **environment})
    # What searches these files begins when the servers have written them all.
    (events,) = log.iterdir()
    entries = [json.loads(line) for line in events.read_text().splitlines()]
    return Reported(run=run, printed=printed, processes=processes, log=entries, files=files, scratch=scratch)


def watch_stallbench(command: Sequence[str], environment: dict[str, str]) -> tuple[str, frozenset[str]]:
    """Run ``stallbench``; returns what it printed, and the command lines of all processes meanwhile."""
    process = subprocess.Popen(
        [sys.executable, "-c", "from stallbench.cli import main; main()", *command],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env={**os.environ, **environment},
    )
    seen: set[str] = set()
    until_s = time.monotonic() + WITHIN_S
    try:
        while process.poll() is None:
            assert time.monotonic() < until_s, "the report was not made"
            seen |= {" ".join(other.info["cmdline"] or []) for other in psutil.process_iter(["cmdline"])}
            time.sleep(1)
    finally:
        process.kill()
        printed, _ = process.communicate()
    # The run has lost and duplicate jobs, and the sample may be older than a collector whose samples its verdict asks for.
    assert process.returncode in (EXIT_PASS, EXIT_FAIL), printed
    return printed, frozenset(seen)


@pytest.fixture(scope="module")
def here(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same run, whose tables and verdict this machine has made."""
    folder = tmp_path_factory.mktemp("here") / "run"
    copy_with_trouble(folder)
    write_tables(spark, folder)
    judge(RunTables(folder))
    return folder


def rows_of(folder: Path, name: str) -> list[str]:
    """The rows of a table as text, sorted: tables have no order, and their lists cannot be compared."""
    return sorted(repr(row) for row in read_table(folder, name).itertuples(index=False, name=None))


def findings_of(folder: Path) -> Sequence[tuple[str, str, str]]:
    findings = json.loads((folder / "verdict.json").read_text())["findings"]
    return [(finding["check"], finding["result"], finding["reason"]) for finding in findings]


def test_a_cluster_makes_the_same_tables_row_by_row(reported: Reported, here: Path) -> None:
    assert [name for name in TABLES if rows_of(here, name) != rows_of(reported.run.folder, name)] == []
    assert len(read_table(reported.run.folder, "jobs")) > 500


@pytest.mark.long  # it is a condition of the tests above
def test_no_table_is_empty(here: Path) -> None:
    """The cluster has computed each of them: a table without rows would have been written without Spark."""
    assert [name for name in TABLES if read_table(here, name).empty] == []
    of_the_run = read_table(here, "phases").query("phase == 'run'")
    assert {"claim_by_position", "claim_round", "recovery_s", "skipped_keys"} <= set(of_the_run.measure)


def test_the_verdict_is_the_same_and_everything_is_where_the_run_is(reported: Reported, here: Path) -> None:
    assert findings_of(reported.run.folder) == findings_of(here)
    assert "report.html" in reported.printed
    assert {path.name for path in reported.run.folder.iterdir()} == {path.name for path in SAMPLE.iterdir()}
    assert "uPlot" in (reported.run.folder / "report.html").read_text()
    assert (reported.run.folder / "logs" / "pipeline.log").exists()


def test_both_workers_took_part(reported: Reported) -> None:
    executors = {entry["Executor ID"] for entry in reported.events("SparkListenerExecutorAdded")}
    at_work = {entry["Task Info"]["Executor ID"] for entry in reported.events("SparkListenerTaskEnd")}
    assert len(executors) == WORKERS
    assert at_work == executors


def test_on_a_cluster_the_settings_are_those_of_the_user(reported: Reported) -> None:
    (environment,) = reported.events("SparkListenerEnvironmentUpdate")
    settings = environment["Spark Properties"]
    assert settings["spark.driver.host"] == "127.0.0.1", "of spark-defaults.conf"
    assert settings["spark.sql.shuffle.partitions"] == str(SHUFFLE_PARTITIONS), "--spark-conf comes before spark-defaults.conf"
    assert not {"spark.ui.enabled", "spark.sql.adaptive.enabled", "spark.driver.memory", "spark.local.dir"} & set(settings)
    plans = [entry["physicalPlanDescription"] for entry in reported.events("SQLExecutionStart")]
    shuffles = [plan for plan in plans if "hashpartitioning" in plan]
    assert shuffles
    assert all("AdaptiveSparkPlan" in plan for plan in shuffles), "Spark replans queries unless a user says otherwise"
    assert any(f", {SHUFFLE_PARTITIONS})" in plan for plan in shuffles)


def test_no_process_list_and_no_file_has_a_secret(reported: Reported) -> None:
    assert any("org.apache.spark.deploy.SparkSubmit" in line for line in reported.processes)
    assert not [line for line in reported.processes if SECRET_KEY in line or ACCESS_KEY in line]
    own = reported.files / "s3" / "s3proxy.conf"
    files = [path for path in reported.files.rglob("*") if path.is_file() and path != own]
    assert [path for path in files if SECRET_KEY.encode() in path.read_bytes()] == []
    assert SECRET_KEY not in reported.printed


def test_nothing_is_left_of_the_command(reported: Reported) -> None:
    assert list(reported.scratch.iterdir()) == []
