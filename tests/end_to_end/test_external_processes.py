"""Producers, workers and longrunners that somebody else starts take part in a run, and are counted in its verdict."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.end_to_end.conftest import Bench, short

pytestmark = pytest.mark.end_to_end
INVITING = ("external_processes=true", "phases.baseline.duration=8s", "workers.count=1")

StartOutside = Callable[..., "subprocess.Popen[str]"]


@pytest.fixture
def start(bench: Bench) -> Iterator[StartOutside]:
    """Starts ``python -m <role>s --join`` as somebody else would; killed when the test is over."""
    started: list[subprocess.Popen[str]] = []
    bench.runs.mkdir()

    def start_one(role: str, *arguments: str, where: Path | None = None) -> subprocess.Popen[str]:
        command = [sys.executable, "-m", f"{role}s", "--join", str(where or bench.runs), *arguments]
        started.append(subprocess.Popen(command, stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True))
        return started[-1]

    yield start_one
    for process in started:
        process.kill()
        process.communicate()


def external_processes(record: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {process["name"]: process for process in record["processes"] if process.get("external")}


def wait_for_seats(bench: Bench, count: int) -> list[Path]:
    until_s = time.monotonic() + 120
    while (
        len(registrations := [path for path in (bench.runs / "latest" / "external").glob("*-*.json") if path.stat().st_size])
        < count
    ):
        assert time.monotonic() < until_s, f"only {len(registrations)} take part"
        time.sleep(0.1)
    return registrations


def test_processes_of_others_work_in_the_run_and_end_with_it_and_one_that_is_killed_is_named(
    bench: Bench, start: StartOutside
) -> None:
    others = [start("worker"), start("worker"), start("producer"), start("longrunner", "--kind", "snapshot_reader")]
    run = bench.start("run", "longtx", *short(*INVITING))
    bench.wait_for_phase("warmup")
    before = set(wait_for_seats(bench, len(others)))
    victim = start("worker", where=bench.folder())
    (registration,) = set(wait_for_seats(bench, len(others) + 1)) - before
    victim.send_signal(signal.SIGKILL)

    out, err = run.communicate(timeout=600)
    assert run.returncode == 1, out + err
    for process in others:
        process.communicate(timeout=120)
        assert process.returncode == 0
    findings = {finding["check"]: finding for finding in bench.verdict()["findings"]}
    assert findings["processes"]["reason"] == f"ended uninvited: {registration.stem} (its end was not seen)"
    assert findings["conservation"]["result"] == findings["clocks"]["result"] == "pass"

    took_part = external_processes(bench.record())
    del took_part[registration.stem]
    assert sorted(kept["role"] for kept in took_part.values()) == ["longrunner", "producer", "worker", "worker"]
    assert all(kept["exit_code"] == 0 and kept["end_ns"] for kept in took_part.values())
    for name, kept in took_part.items():
        if kept["role"] != "longrunner":
            events = (bench.folder() / "events" / f"{name}.csv").read_text()
            assert ("enqueued" if kept["role"] == "producer" else "completed") in events


def test_a_process_that_finds_no_run_waits_and_ends_when_it_is_asked_to(bench: Bench, start: StartOutside) -> None:
    process = start("worker")
    assert process.stderr is not None
    assert "waiting for a run that invites" in process.stderr.readline()
    process.terminate()
    process.wait(60)
    assert process.returncode == 0
