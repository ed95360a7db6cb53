"""Builds the archive of Java classes (`stallbench.pipeline.class_archive`), by making the tables of a made-up run of a few records.

``python -m stallbench.pipeline --prepare`` calls it at set-up. Several may run at the same time: each writes a separate file and renames it, so
the archive is always complete.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

from stallbench.pipeline.class_archive import archive_path
from stallbench.pipeline.make import write_tables
from stallbench.pipeline.session import open_session
from stallbench.processes.record import ProcessRecord
from stallbench.records.final_snapshot import FINAL_SNAPSHOT_FILE, format_snapshot
from stallbench.records.injections import InjectionRecord
from stallbench.records.nanoseconds import NS_PER_S
from stallbench.run.recorder import RunRecorder
from stallbench.scenario.model import Scenario
from stallbench.setup.components import require_java

_T_NS = NS_PER_S
_PHASE = "training"
_HOLDER = "idle_writer-1"
_SCENARIO = Scenario.model_validate(
    {
        "name": "training",
        "file": "training.toml",
        "summary": "A few records of everything.",
        "queue": {"kind": "que"},
        "producers": {"rate": 0},
        "phases": [{"name": _PHASE, "duration": "4s"}],
    }
)
_LONGRUNNER = InjectionRecord(name=_HOLDER, category="longrunner", kind="idle_writer", on="primary", phase=_PHASE, start_ns=_T_NS)
_WORKER = ProcessRecord(name="worker-1", role="worker", pid=1, start_ns=_T_NS, end_ns=5 * _T_NS, exit_code=0)
_OPERATIONS = ("claimed", "worked", "completed", "claimed", "failed")
_SAMPLES = (
    ("queue", "depth", "3"),
    ("server", "holders", "1"),
    ("holder:backend:1:1", "rank", "0"),
    ("holder:backend:1:1", "application", _HOLDER),
    ("holder:backend:1:1", "age_s", "1"),
)


def prepare() -> str:
    """Build the archive if there is none; returns one sentence on what is there now.

    Raises `stallbench.setup.components.MissingComponentError` without Java. When the archive cannot be kept, the sentence says why.
    """
    java = require_java()
    archive = archive_path(java)
    if archive.is_file():
        return f"{archive}: the archive of Java classes is there"
    try:
        _build(archive)
    except OSError as error:
        return (
            f"{archive}: the archive of Java classes cannot be kept ({error.strerror or error}); reports take some seconds longer"
        )
    return f"{archive}: the archive of Java classes was built ({archive.stat().st_size // 1_000_000} MB)"


def _build(archive: Path) -> None:
    archive.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="building-", dir=archive.parent) as scratch:
        run_folder = Path(scratch) / "run"
        _make_up_run(run_folder)
        fresh = Path(scratch) / archive.name
        with open_session(java_options=[f"-XX:ArchiveClassesAtExit={fresh}"]) as spark:
            write_tables(spark, run_folder)
        fresh.replace(archive)
    for stale in archive.parent.glob("classes-*.jsa"):
        if stale != archive:
            stale.unlink(missing_ok=True)


def _make_up_run(folder: Path) -> None:
    """Write a run that has rows for every table."""
    for part in ("events", "samples"):
        (folder / part).mkdir(parents=True)
    recorder = RunRecorder(folder / "run.json", _SCENARIO)
    (phase,) = recorder.record.phases
    recorder.follow("phases", lambda: [phase.model_copy(update={"start_ns": _T_NS, "end_ns": 5 * _T_NS})])
    recorder.follow("injections", lambda: [_LONGRUNNER])
    recorder.follow("processes", lambda: [_WORKER])
    recorder.end("completed")
    enqueued = [f"{_T_NS + n},1,producer-1,enqueued,{n},,{_T_NS},1000,\n" for n in range(10)]
    (folder / "events" / "producer-1.csv").write_text("".join(enqueued))
    operations = [
        f"{2 * _T_NS + n},1,worker-1,{event},{n % 5},,,1000,40P01 in claim\n" for n, event in enumerate(_OPERATIONS * 4)
    ]
    (folder / "events" / "worker-1.csv").write_text("".join(operations))
    samples = [f"{t_s * _T_NS},primary,{subject},{metric},{value}\n" for t_s in (1, 2, 3) for subject, metric, value in _SAMPLES]
    (folder / "samples" / "all.csv").write_text("".join(samples))
    (folder / FINAL_SNAPSHOT_FILE).write_text("".join(format_snapshot([(1, False)])))
