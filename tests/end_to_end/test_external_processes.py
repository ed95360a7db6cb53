"""Producers, workers and longrunners that the bench did not start join a run, and its verdict counts them; killed ones are named."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from stallbench.waiting import wait_until
from tests.end_to_end.conftest import (
    Bench,
    assert_every_job_is_accounted_for,
    assert_nothing_is_left,
    kill_at_random_moments,
    short,
)

pytestmark = pytest.mark.end_to_end
EXTERNAL = (
    *("producers.rate=100", "external_processes=true", "phases.baseline.duration=8s"),
    *("producers.count=2", "workers.count=2", "workers.work=5ms"),
    *(f"phases.{phase}.duration=1s" for phase in ("longtx", "recovery", "recovered")),
)
"""Two of each, for one of each is killed, in the phase that is long enough for it."""

StartExternal = Callable[..., "subprocess.Popen[str]"]


@pytest.fixture
def start(bench: Bench) -> Iterator[StartExternal]:
    """Starts ``python -m <role>s --join`` as an external process; kills it when the test is over."""
    started: list[subprocess.Popen[str]] = []
    bench.runs.mkdir()

    def start_one(role: str, *arguments: str, path: Path | None = None) -> subprocess.Popen[str]:
        command = [sys.executable, "-m", f"{role}s", "--join", str(path or bench.runs), *arguments]
        started.append(subprocess.Popen(command, stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True))
        return started[-1]

    yield start_one
    for process in started:
        process.kill()
        process.communicate()


def external_processes(record: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {process["name"]: process for process in record["processes"] if process.get("external")}


def wait_for_registrations(bench: Bench, count: int) -> list[Path]:
    def registrations() -> list[Path]:
        return [path for path in (bench.runs / "latest" / "external").glob("*-*.json") if path.stat().st_size]

    assert wait_until(lambda: len(registrations()) >= count, within_s=120), f"only {len(registrations())} processes have joined"
    return registrations()


def test_external_processes_work_in_the_run_and_end_with_it_and_all_that_are_killed_are_named(
    bench: Bench, start: StartExternal
) -> None:
    external = [start("worker"), start("worker"), start("producer"), start("longrunner", "--kind", "snapshot_reader")]
    run = bench.start("run", "longtx", *short(*EXTERNAL))
    bench.wait_for_phase("warmup")
    before = set(wait_for_registrations(bench, len(external)))
    victim = start("worker", path=bench.folder())
    record = bench.wait_for_phase("baseline")
    killed = kill_at_random_moments(record, ("worker", "producer"), seed=0)
    (registration,) = set(wait_for_registrations(bench, len(external) + 1)) - before
    victim.send_signal(signal.SIGKILL)

    out, err = run.communicate(timeout=600)
    assert run.returncode == 1, out + err
    assert bench.record()["status"] == "completed"
    for process in external:
        process.communicate(timeout=600)
        assert process.returncode == 0
    findings = {finding["check"]: finding for finding in bench.verdict()["findings"]}
    said, _, named = findings["processes"]["reason"].partition(": ")
    assert said == "exited unexpectedly"
    assert sorted(named.split(", ")) == sorted(
        [f"{registration.stem} (its end was not seen)", *(f"{name} (SIGKILL)" for name in killed)]
    )
    assert findings["clocks"]["result"] == "pass"
    assert_every_job_is_accounted_for(bench)
    assert_nothing_is_left(bench, record["bench"]["pid"])

    joined = external_processes(bench.record())
    del joined[registration.stem]
    assert sorted(kept["role"] for kept in joined.values()) == ["longrunner", "producer", "worker", "worker"]
    assert all(kept["exit_code"] == 0 and kept["end_ns"] for kept in joined.values())
    for name, kept in joined.items():
        if kept["role"] != "longrunner":
            events = (bench.folder() / "events" / f"{name}.csv").read_text()
            assert ("enqueued" if kept["role"] == "producer" else "completed") in events


def test_a_process_that_finds_no_run_waits_and_ends_when_asked_to_stop(bench: Bench, start: StartExternal) -> None:
    process = start("worker")
    assert process.stderr is not None
    assert "that accepts external processes" in process.stderr.readline()
    process.terminate()
    process.wait(60)
    assert process.returncode == 0
