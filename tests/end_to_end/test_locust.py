"""Whole runs under Locust's load: its jobs are conserved, and its own test and the verdict say the same."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from stallbench import PROJECT
from tests.end_to_end.conftest import Bench

pytestmark = pytest.mark.end_to_end

SHORT = ("phases.warmup.duration=1s", "producers.rate=10", "producers.users=30")
"""A job in three seconds each: a machine may stand still for as long without lowering the rate."""
BOUND = "expect=[{{ metric = 'enqueue_ms.p95', at_most = {} }}]"


def options(*changes: str) -> list[str]:
    return [part for change in (*SHORT, *changes) for part in ("--set", change)]


def findings(bench: Bench, check: str) -> list[dict[str, Any]]:
    return [finding for finding in bench.verdict()["findings"] if finding["check"] == check]


@pytest.fixture
def joined(bench: Bench, tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    """Locust with two workers, as a user would start it; killed when the test is over."""
    bench.runs.mkdir()
    command = [sys.executable, "-m", "locust", "-f", str(PROJECT / "producers" / "locustfile.py"), "--headless"]
    with (tmp_path / "joined.log").open("w") as log:
        process = subprocess.Popen(
            [*command, "--join", str(bench.runs), "--rate", "10", "--users", "4", "--processes", "2"],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            text=True,
        )
        yield process
        process.kill()
        process.wait()


def test_locust_and_the_verdict_pass_together(bench: Bench, joined: subprocess.Popen[str], tmp_path: Path) -> None:
    burst = "phases.steady.faults=[{ kind = 'burst', on = 'producers', rate = 10, after = '2s', for = '3s' }]"
    ended = bench.run(
        "run", "locust", *options("external_processes=true", "phases.steady.duration=10s", burst, BOUND.format(10_000))
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert joined.wait(120) == 0, (tmp_path / "joined.log").read_text()
    assert {finding["check"]: finding["result"] for finding in bench.verdict()["findings"]}["conservation"] == "pass"
    said = {path.stem: json.loads(path.read_text()) for path in (bench.folder() / "locust").glob("*.json")}
    assert len(said) == len(findings(bench, "locust")) == 3, "the run's own, that of the burst, and the master of the others"
    assert all(one["result"] == "pass" and one["requests"] for one in said.values())
    recorded = sum(path.read_text().count(",enqueued,") for path in (bench.folder() / "events").glob("producer-*.csv"))
    assert recorded == sum(one["requests"] for one in said.values())
    registrations = [process for process in bench.record()["processes"] if process.get("external")]
    assert [process["exit_code"] for process in registrations] == [0, 0]


@pytest.mark.long
def test_locust_and_the_verdict_fail_together(bench: Bench) -> None:
    down = "phases.steady.faults=[{ kind = 'down', on = 'primary', after = '2s', for = '1s' }]"
    ended = bench.run("run", "locust", *options("phases.steady.duration=6s", down, BOUND.format(0.001)))
    assert ended.returncode == 1, ended.stdout + ended.stderr
    (finding,) = findings(bench, "locust")
    assert finding["result"] == "fail"
    assert "of the requests failed; expected at most 0.00%" in finding["reason"]
    assert "ms; expected at most 0.001" in finding["reason"]
    assert [one["result"] for one in findings(bench, "expectations")] == ["fail"]
    (producer,) = [process for process in bench.record()["processes"] if process["role"] == "producer"]
    assert producer["exit_code"] == 1
    assert findings(bench, "processes")[0]["result"] == findings(bench, "conservation")[0]["result"] == "pass"
