"""A run that is kept in an object store: it is made and judged here, and moved there when it is over. Its jobs wait for each other and for times."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from stallbench.pipeline.service import SERVICE_VARIABLE
from stallbench.run.folder import RUNS, find_run_at
from stallbench.verdicts import RunTables
from tests.s3_server import BUCKET, S3Server, start_s3_server

ADDRESS = f"s3://{BUCKET}/runs"
WITHIN_S = 600.0
CHANGES = (
    *("producers.rate=20", "producers.count=1", "producers.max_batch=400", "workers.count=2"),
    *("phases.warmup.duration=1s", "phases.work.duration=6s", "expect=[]"),
)
"""`postgrestue-waiting`, so short that the jobs which are due after three seconds are claimed."""
WAITING = (
    "jobs of a FIFO queue run in their order",
    "a FIFO queue runs one job at a time",
    "a scheduled job does not start before it is due",
    "a blocked job waits until the other job succeeds",
)

pytestmark = pytest.mark.end_to_end


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[S3Server]:
    with start_s3_server(tmp_path) as server:
        for name, value in server.environment.items():
            monkeypatch.setenv(name, value)
        yield server


def test_a_run_of_jobs_that_wait_is_judged_and_moved_to_an_object_store(store: S3Server, pipeline_service: Path | None) -> None:
    changes = [part for change in CHANGES for part in ("--set", change)]
    program = [sys.executable, "-c", "from stallbench.cli import main; main()"]
    ended = subprocess.run(
        [*program, "run", "postgrestue-waiting", *changes, "--runs", ADDRESS],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=WITHIN_S,
        check=False,
        env={**os.environ, **({SERVICE_VARIABLE: str(pipeline_service)} if pipeline_service else {})},
    )
    said = re.search(r"the records are in (\S+)", ended.stdout + ended.stderr)
    assert said is not None, ended.stdout + ended.stderr
    name = Path(said[1]).name
    try:
        assert ended.returncode == 0, ended.stdout + ended.stderr
        assert f"report: {ADDRESS}/{name}/report.html" in ended.stdout
        assert not (RUNS / name).exists()
    finally:
        shutil.rmtree(RUNS / name, ignore_errors=True)

    there = store.objects / "runs" / name
    assert json.loads((there / "run.json").read_text())["status"] == "completed"
    verdict = json.loads((there / "verdict.json").read_text())
    assert verdict["verdict"] == "pass"
    waiting = {finding["subject"]: finding["result"] for finding in verdict["findings"] if finding["check"] == "waiting"}
    assert waiting == dict.fromkeys(WAITING, "pass"), "each kind of waiting was seen"
    assert {path.name for path in there.iterdir()} >= {"events", "samples", "logs", "tables", "report.html", "final_snapshot.csv"}
    run = RunTables(find_run_at(f"{ADDRESS}/{name}"))
    assert run.state_count("enqueued") == run.state_count("completed") + run.state_count("queued") > 0
