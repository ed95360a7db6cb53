"""A standalone Spark cluster on this machine, started from the distribution that PySpark brings: one master and two workers."""

from __future__ import annotations

import os
import re
import signal
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pyspark

from stallbench.pipeline.class_archive import use_archive
from stallbench.processes.parent_death import die_with_parent
from stallbench.setup.components import require_java
from tests.waiting import wait_for

WORKERS = 2
_DEADLINE_S = 120.0
_DISTRIBUTION = Path(pyspark.__file__).parent


def list_java_options() -> list[str]:
    """Return the options of every Java process of the cluster: each lives for a minute."""
    return ["-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-XX:-UsePerfData", *use_archive(require_java())]


@contextmanager
def start_standalone_cluster(folder: Path) -> Iterator[str]:
    """Start the cluster with its files in ``folder``; gives the block the master's address and ends every process afterwards."""
    with ExitStack() as processes:
        master = processes.enter_context(_daemon(folder, "master", ["Master", "--host", "127.0.0.1", "--port", "0"]))
        address = _wait_for(r"Starting Spark master at (spark://127\.0\.0\.1:\d+)", master)
        workers = [
            processes.enter_context(
                _daemon(
                    folder,
                    f"worker-{number}",
                    [
                        "Worker",
                        "--host",
                        "127.0.0.1",
                        "--cores",
                        "1",
                        "--memory",
                        "1g",
                        "--work-dir",
                        f"{folder}/work-{number}",
                        address,
                    ],
                )
            )
            for number in range(1, WORKERS + 1)
        ]
        for worker in workers:
            _wait_for("Successfully registered with master", worker)
        yield address


@contextmanager
def _daemon(folder: Path, name: str, arguments: Sequence[str]) -> Iterator[Path]:
    """Run one of the cluster's daemons while the block runs; gives it the daemon's log."""
    program = f"org.apache.spark.deploy.{arguments[0].lower()}.{arguments[0]}"
    scratch = folder / f"{name}.tmp"
    scratch.mkdir(parents=True)
    options = [*list_java_options(), "-Xmx256m", f"-Djava.io.tmpdir={scratch}"]
    log = folder / f"{name}.log"
    java = require_java()
    environment = {
        **os.environ,
        "JAVA_HOME": str(java.home),
        "SPARK_HOME": str(_DISTRIBUTION),
        "SPARK_SCALA_VERSION": "2.13",
        "SPARK_LOCAL_IP": "127.0.0.1",
    }
    with log.open("w") as file:
        process = subprocess.Popen(
            [
                java.home / "bin" / "java",
                *options,
                "-cp",
                f"{_DISTRIBUTION}/conf/:{_DISTRIBUTION}/jars/*",
                program,
                "--webui-port",
                "0",
                *arguments[1:],
            ],
            stdin=subprocess.DEVNULL,
            stdout=file,
            stderr=subprocess.STDOUT,
            env=environment,
            preexec_fn=die_with_parent(signal.SIGKILL),  # noqa: PLW1509 - only a system call
        )
    try:
        yield log
    finally:
        process.terminate()
        try:
            process.wait(_DEADLINE_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _wait_for(pattern: str, log: Path) -> str:
    """Return the (first group of the) first match in ``log``."""
    match = wait_for(
        lambda: re.search(pattern, log.read_text()), lambda: f"{log.read_text()}\n{pattern!r} in {log}", _DEADLINE_S, every_s=0.1
    )
    return match[match.lastindex or 0]
