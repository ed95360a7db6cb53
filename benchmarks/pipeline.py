"""Measures what the pipeline takes, from the start of its process until all tables are written.

``python -m benchmarks.pipeline`` writes a synthetic run of 120 s with about 250 000 events of 9 processes, as in `longtx`, runs
``python -m stallbench.pipeline`` on it several times, and prints each time as a line of JSON, then a line with the medians. ``--events
100_000_000``: a larger run. ``--report``: ``stallbench report`` as well, from the records to the pages. ``--duckdb``: DuckDB computes jobs,
windows, percentiles and order from the same files between two runs of the pipeline. The synthetic run is removed afterwards.

``seconds`` is the time on the clock, ``cpu_s`` the processor time of all processes. ``peak_process_mb`` is the largest resident set that one of the
processes ever had, as the kernel counted it; ``peak_tree_mb`` is the largest memory that all of them had at the same time, by samples: pages that
several have mapped count once (PSS).
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TextIO

from benchmarks.memory import TreeMemory
from stallbench.errors import EXIT_FAIL, EXIT_PASS
from stallbench.processes.record import ProcessRecord
from stallbench.records.final_snapshot import FINAL_SNAPSHOT_FILE, format_snapshot
from stallbench.records.nanoseconds import NS_PER_S
from stallbench.run.record import PhaseRecord
from stallbench.run.recorder import RunRecorder
from stallbench.scenario.file import read_scenario

START_NS = 1_800_000_000_000_000_000
_HOLDERS = 2
_EVENTS = 240_000
_EVENTS_PER_JOB = 4
_DURATION_S = 120
_EXIT_CODES = {"report": (EXIT_PASS, EXIT_FAIL)}
"""The made-up run need not meet the expectations of its scenario."""


def write_run(folder: Path, *, jobs_per_s: int, duration_s: int, workers: int) -> int:
    """Write the records of a run without faults. Returns the number of events."""
    folder.mkdir(parents=True)
    for part in ("events", "samples"):
        (folder / part).mkdir()
    _write_record(folder / "run.json", duration_s, workers)
    events = _write_events(folder / "events", jobs_per_s * duration_s, jobs_per_s, workers)
    _write_samples(folder / "samples", duration_s)
    (folder / FINAL_SNAPSHOT_FILE).write_text("".join(format_snapshot([])))
    return events


def measure(command: Sequence[str], exit_codes: Collection[int] = (EXIT_PASS,)) -> dict[str, float]:
    """Run ``command``, which must end with one of ``exit_codes``, and return what it and all its processes took."""
    began_s = time.monotonic()
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    with TreeMemory(process.pid) as memory:
        _, status, used = os.wait4(process.pid, 0)
    seconds = time.monotonic() - began_s
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode not in exit_codes:
        raise subprocess.CalledProcessError(process.returncode, command)
    return {
        "seconds": round(seconds, 2),
        "cpu_s": round(used.ru_utime + used.ru_stime, 1),
        "peak_process_mb": round(used.ru_maxrss / 1024),
        "peak_tree_mb": round(memory.peak_bytes / 1024**2),
    }


def find_medians(measured: Sequence[Mapping[str, float]]) -> dict[str, float]:
    """Return the median of each figure."""
    return {name: round(statistics.median(each[name] for each in measured), 2) for name in measured[0]}


def _list_commands(folder: Path, *, report: bool, duckdb: bool) -> dict[str, list[str]]:
    commands = {"pipeline": [sys.executable, "-m", "stallbench.pipeline", str(folder)]}
    if report:
        commands["report"] = [sys.executable, "-c", "from stallbench.cli import main; main()", "report", str(folder)]
    if duckdb:
        commands["duckdb"] = [sys.executable, "-m", "benchmarks.duckdb_tables", str(folder)]
    return commands


def _write_record(path: Path, duration_s: int, workers: int) -> None:
    lengths_s = {"baseline": 0.25 * duration_s, "longtx": 0.5 * duration_s, "recovery": 0.25 * duration_s}
    changes = [f"phases.{name}.duration={length_s}s" for name, length_s in lengths_s.items()]
    recorder = RunRecorder(path, read_scenario("longtx", overrides=["producers.rate=500", *changes]))
    phases = [phase.model_copy(update=_times(phase)) for phase in recorder.record.phases if phase.name in lengths_s]
    names = ["producer-1", *(f"worker-{number}" for number in range(1, workers + 1))]
    times = {"start_ns": START_NS, "end_ns": START_NS + duration_s * NS_PER_S}
    processes = [
        ProcessRecord(name=name, role=name.split("-")[0], pid=1, intended="stopped", exit_code=0, **times) for name in names
    ]
    recorder.follow("phases", lambda: phases)
    recorder.follow("processes", lambda: processes)
    recorder.end("completed")


def _times(phase: PhaseRecord) -> dict[str, int]:
    start_ns = START_NS + int(phase.planned_start_s * NS_PER_S)
    return {"start_ns": start_ns, "end_ns": start_ns + int(phase.planned_duration_s * NS_PER_S)}


def _write_events(folder: Path, jobs: int, jobs_per_s: int, workers: int) -> int:
    draw = random.Random(1)
    gap_ns = NS_PER_S // jobs_per_s
    with (folder / "producer-1.csv").open("w") as file:
        for job in range(jobs):
            intended_ns = START_NS + job * gap_ns
            took_ns = draw.randrange(300_000, 900_000)
            t_ns = intended_ns + 50_000 + took_ns
            file.write(f"{t_ns},{t_ns - START_NS},producer-1,enqueued,{job + 1},,{intended_ns},{took_ns},\n")
    files = [(folder / f"worker-{number}.csv").open("w") for number in range(1, workers + 1)]
    for job in range(jobs):
        number = job % workers
        t_ns = START_NS + job * gap_ns + 2_000_000 + draw.randrange(1_000_000)
        _write_job(files[number], f"worker-{number + 1}", job + 1, t_ns, draw)
    for file in files:
        file.close()
    return jobs * _EVENTS_PER_JOB


def _write_job(file: TextIO, process: str, job_id: int, t_ns: int, draw: random.Random) -> None:
    for event, took_ns in (
        ("claimed", draw.randrange(400_000, 5_000_000)),
        ("worked", 1_000_000 + draw.randrange(100_000)),
        ("completed", draw.randrange(300_000, 2_000_000)),
    ):
        t_ns += took_ns
        file.write(f"{t_ns},{t_ns - START_NS},{process},{event},{job_id},1,,{took_ns},\n")


def _write_samples(folder: Path, duration_s: int) -> None:
    for name, sets in _COLLECTORS.items():
        with (folder / f"{name}.csv").open("w") as file:
            for second in range(duration_s):
                t_ns = START_NS + second * NS_PER_S + 500_000_000
                for source, subject, metric, value in sets(second):
                    file.write(f"{t_ns},{source},{subject},{metric},{value}\n")


Rows = Iterator[tuple[str, str, str, float | str]]


def _backlog(second: int) -> Rows:
    yield "primary", "queue", "depth", second % 7
    yield "primary", "queue", "oldest_job_s", 0.01


def _tables(second: int) -> Rows:
    for metric in ("dead_tuples", "live_tuples", "table_bytes", "inserts", "updates", "hot_updates", "deletes"):
        yield "primary", "table:que_jobs", metric, second * 500
    yield "primary", "index:que_jobs_pkey", "index_bytes", 8192 * second


def _horizon(second: int) -> Rows:
    for rank in range(_HOLDERS):
        subject = f"holder:backend:{4711 + rank}:1"
        for metric, value in (("rank", rank), ("kind", "backend"), ("pid", 4711 + rank), ("application", "reporting")):
            yield "primary", subject, metric, value
        for metric, value in (("state", "idle"), ("age_s", second), ("age_xids", 500 * second), ("via", ""), ("catalog_only", 0)):
            yield "primary", subject, metric, value
    for metric in ("holders", "horizon_age_xids", "horizon_age_s"):
        yield "primary", "server", metric, second


def _locks(second: int) -> Rows:
    for metric in ("deadlocks", "blocked_backends", "rollbacks", "conflicts"):
        yield "primary", "server", metric, 0


def _host(second: int) -> Rows:
    for metric in ("cpu_percent", "memory_used_bytes", "disk_read_bytes", "disk_written_bytes", "load1"):
        yield "host", "host", metric, 50 + second % 10


_COLLECTORS = {"backlog": _backlog, "tables": _tables, "horizon": _horizon, "locks": _locks, "host": _host}


def main() -> None:
    """Write the synthetic run, time the pipeline on it, and remove it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--events", type=int, default=_EVENTS)
    parser.add_argument("--workers", type=int, default=8)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--report", action="store_true", help="also measure `stallbench report`, from the records to the pages")
    parser.add_argument("--duckdb", action="store_true", help="also measure DuckDB, which must be installed")
    options = parser.parse_args()
    if options.duckdb and importlib.util.find_spec("duckdb") is None:
        parser.error("DuckDB is not installed; install it by: .venv/bin/pip install duckdb")
    with tempfile.TemporaryDirectory(prefix="stallbench-benchmark-") as scratch:
        folder = Path(scratch) / "run"
        jobs_per_s = max(1, options.events // _EVENTS_PER_JOB // _DURATION_S)
        events = write_run(folder, jobs_per_s=jobs_per_s, duration_s=_DURATION_S, workers=options.workers)
        commands = _list_commands(folder, report=options.report, duckdb=options.duckdb)
        measured: dict[str, list[dict[str, float]]] = {name: [] for name in commands}
        for repeat in range(1, options.repeats + 1):
            for name, command in commands.items():
                measured[name].append(measure(command, _EXIT_CODES.get(name, (EXIT_PASS,))))
                print(json.dumps({"benchmark": name, "events": events, "repeat": repeat, **measured[name][-1]}), flush=True)
        if options.repeats > 1:
            for name, each in measured.items():
                print(json.dumps({"benchmark": name, "events": events, "median_of": len(each), **find_medians(each)}), flush=True)


if __name__ == "__main__":
    main()
