"""What the contract module of every language must do, seen through an adapter that executes each job at once."""

from __future__ import annotations

import hashlib
import json
import signal
import subprocess
import time
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import Any

import psutil
import pytest

from stallbench.engines.error_codes import find_error_kind
from stallbench.injection.job_faults import JobFault, end_job_fault, has_announced, read_announced_job, start_job_fault
from stallbench.libraries import find_libraries
from stallbench.queues.crash_points import CrashPoint
from stallbench.records.events import ENQUEUE, EventRecord, format_error, parse_error
from stallbench.records.reading import read_events
from tests.error_details import split_error
from tests.libraries.probes import CONTRACT, PROBES, ProbeCommand
from tests.libraries.web_service import web_service
from tests.waiting import wait_for

LANGUAGES = sorted(folder.name for folder in CONTRACT.iterdir())
PATIENCE_S = 60.0


def make_job(number: int, payload: str = '{"n":1}') -> dict[str, Any]:
    return {"n": number, "sum": zlib.crc32(f"{number}:{payload}".encode()), "payload": payload}


class Probe:
    """The adapter in one language, while it runs."""

    def __init__(self, process: subprocess.Popen[str], events: Path, job_faults: Path) -> None:
        self.process = process
        self.job_faults = job_faults
        self.messages: list[dict[str, Any]] = []
        """What it has sent beside answers."""
        self._events = events

    def hand_over(self, *jobs: dict[str, Any]) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps({"jobs": jobs}) + "\n")
        self.process.stdin.flush()

    def execute(self, *jobs: dict[str, Any]) -> dict[str, Any]:
        """Hand over jobs; returns the answer, empty if the adapter has ended."""
        self.hand_over(*jobs)
        return self.read_message("ok", "refused", "error")

    def read_message(self, *keys: str) -> dict[str, Any]:
        """Return the next message with one of ``keys``; empty if the adapter ends before."""
        assert self.process.stdout is not None
        for line in self.process.stdout:
            message: dict[str, Any] = json.loads(line)
            if set(keys) & set(message):
                return message
            self.messages.append(message)
        return {}

    def events(self) -> list[EventRecord]:
        return list(read_events(self._events))


@contextmanager
def started(command: ProbeCommand, folder: Path, **document: object) -> Iterator[Probe]:
    events, job_faults = folder / "worker-1.csv", folder / "job_faults"
    process = subprocess.Popen(command.argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=command.environment)
    probe = Probe(process, events, job_faults)
    try:
        assert process.stdin is not None
        content = {"name": "worker-1", "events": str(events), "work_s": 0.01, "job_faults": str(job_faults), **document}
        process.stdin.write(json.dumps(content) + "\n")
        process.stdin.flush()
        yield probe
    finally:
        process.kill()
        process.communicate()


@pytest.fixture(scope="module", params=LANGUAGES)
def command(request: pytest.FixtureRequest) -> ProbeCommand:
    return PROBES[request.param]()


@pytest.fixture
def probe(command: ProbeCommand, tmp_path: Path) -> Iterator[Probe]:
    with started(command, tmp_path) as probe:
        assert "ready" in probe.read_message("ready")
        yield probe


def test_a_job_is_recorded_at_its_start_and_at_its_end_with_the_bench_s_number(probe: Probe) -> None:
    before_ns = time.time_ns()
    number = 2**52 + 1  # a language that reads it as a float must not round it
    assert probe.execute(make_job(number)) == {"ok": True}
    claimed, worked, completed = probe.events()
    assert [(event.event, event.job_id, event.attempt, event.process) for event in (claimed, worked, completed)] == [
        ("claimed", number, 1, "worker-1"),
        ("worked", number, 1, "worker-1"),
        ("completed", number, 1, "worker-1"),
    ]
    assert before_ns <= claimed.t_ns <= worked.t_ns <= completed.t_ns <= time.time_ns()
    assert worked.mono_ns - claimed.mono_ns >= 0.009e9, "the work takes work_s"
    assert claimed.duration_ns is None, "the claim of a library cannot be measured"


def test_arguments_that_are_damaged_or_another_job_s_are_found(probe: Probe) -> None:
    for damaged in ({**make_job(1), "n": 2}, {**make_job(1), "payload": '{"n":3}'}):
        assert "damaged" in probe.execute(damaged)["message"]
    assert [(event.event, *split_error(event.detail)) for event in probe.events()] == [("error", "DamagedArguments", "claim")] * 2


def test_a_batch_that_the_adapter_refuses_is_answered_with_its_reason_and_the_next_one_is_taken(probe: Probe) -> None:
    assert probe.execute(make_job(1, "full")) == {"refused": "the queue is full"}
    assert probe.execute(make_job(2)) == {"ok": True}
    assert {event.job_id for event in probe.events()} == {2}


def test_the_code_of_a_failed_batch_is_one_word_and_not_one_of_the_connection(probe: Probe) -> None:
    """In an event log it is followed by the operation, so ``Shop::Closed`` is reported as ``Shop.Closed``."""
    start_job_fault(probe.job_faults, "failing-1", JobFault(on="workers", fails=True))
    code = probe.execute(make_job(1))["error"]
    assert parse_error(format_error(code, ENQUEUE, "")) == (code, ENQUEUE)
    assert find_error_kind(code, ENQUEUE) is None


@pytest.mark.parametrize("hangs_up", [False, True])
def test_an_error_of_a_web_service_that_the_application_calls_is_not_one_of_the_database_s_connection(
    probe: Probe, hangs_up: bool
) -> None:
    with web_service(hangs_up=hangs_up) as address:
        code = probe.execute(make_job(1, address))["error"]
    assert find_error_kind(code, ENQUEUE) is None, code
    assert probe.events() == [], "no job was executed"


def test_a_text_of_several_lines_with_commas_stays_one_record(probe: Probe) -> None:
    payload = json.dumps({"text": "a, b\nc", "umlaut": "ü"}, ensure_ascii=False)
    assert probe.execute(make_job(1, payload)) == {"ok": True}
    assert len(probe.events()) == 3


def test_job_faults_make_jobs_fail_or_take_longer_until_they_end(probe: Probe) -> None:
    start_job_fault(probe.job_faults, "slow-1", JobFault(on="workers", takes_s=0.2))
    began_s = time.monotonic()
    assert probe.execute(make_job(1)) == {"ok": True}
    assert time.monotonic() - began_s >= 0.2
    end_job_fault(probe.job_faults, "slow-1")
    start_job_fault(probe.job_faults, "failing-1", JobFault(on="worker-1", fails=True))
    assert "failing-1" in probe.execute(make_job(2))["message"]
    end_job_fault(probe.job_faults, "failing-1")
    start_job_fault(probe.job_faults, "failing-2", JobFault(on="worker-2", fails=True))
    assert probe.execute(make_job(3)) == {"ok": True}
    assert probe.messages == [{"ready": {}}, {"met": "slow-1"}, {"met": "failing-1"}]
    assert [event.job_id for event in probe.events() if event.event == "worked"] == [1, 3]


def test_a_job_fault_that_kills_does_so_only_for_jobs_with_its_mark_and_announces_it(probe: Probe) -> None:
    start_job_fault(probe.job_faults, "poison-1", JobFault(on="workers", kills=True, mark="poison"))
    assert probe.execute(make_job(1)) == {"ok": True}
    assert probe.execute(make_job(2, '{"mark":"poison"}')) == {}
    assert probe.process.wait(PATIENCE_S) == -signal.SIGKILL
    assert has_announced(probe.job_faults, "poison-1", "worker-1")
    assert [(event.job_id, event.event) for event in probe.events()] == [
        (1, "claimed"),
        (1, "worked"),
        (1, "completed"),
        (2, "claimed"),
    ]


SHARE = 0.3


def draw(seed: str, nth: int) -> bool:
    return int(hashlib.sha256(f"{seed} {nth}".encode()).hexdigest()[:8], 16) < SHARE * 2**32


def test_the_jobs_that_a_fault_affects_by_its_share_are_drawn_from_the_run_s_seed(command: ProbeCommand, tmp_path: Path) -> None:
    numbers = range(1, 25)
    with started(command, tmp_path, seed=20_261, work_s=0) as probe:
        start_job_fault(probe.job_faults, "failing-1", JobFault(on="workers", fails=True, share=SHARE))
        failed = [number for number in numbers if "error" in probe.execute(make_job(number))]
    assert failed == [number for number in numbers if draw("20261 failing-1", number)]
    assert 3 <= len(failed) <= 12


EVENTS_BEFORE: dict[CrashPoint, list[str]] = {
    CrashPoint.AFTER_CLAIM: ["claimed"],
    CrashPoint.DURING_WORK: ["claimed"],
    CrashPoint.BEFORE_COMPLETION: ["claimed", "worked"],
    CrashPoint.AFTER_COMPLETION_ACKNOWLEDGED: ["claimed", "worked", "completed"],
}
"""What is recorded of a job when its worker is at each point."""


@pytest.mark.parametrize("point", EVENTS_BEFORE)
def test_a_worker_is_killed_at_every_nth_passage_of_a_crash_point(probe: Probe, point: CrashPoint) -> None:
    takes_s = 60.0 if point is CrashPoint.AFTER_CLAIM else 1.0
    start_job_fault(probe.job_faults, "slow-1", JobFault(on="workers", takes_s=takes_s, mark="slow"))
    start_job_fault(probe.job_faults, "other-1", JobFault(on="worker-2", at=point, crash="kill", every_nth=1))
    start_job_fault(probe.job_faults, "crash-1", JobFault(on="workers", at=point, crash="kill", every_nth=2))
    assert probe.execute(make_job(1)) == {"ok": True}
    assert probe.execute(make_job(2, '{"mark":"slow"}')) == {}
    assert probe.process.wait(PATIENCE_S) == -signal.SIGKILL
    worked_s = (time.monotonic_ns() - next(event.mono_ns for event in probe.events() if event.job_id == 2)) / 1e9
    assert worked_s < takes_s if point is CrashPoint.AFTER_CLAIM else worked_s >= takes_s / 2
    assert [event.event for event in probe.events() if event.job_id == 2] == EVENTS_BEFORE[point]
    assert read_announced_job(probe.job_faults, "crash-1", "worker-1", "kill") == 2


@pytest.mark.parametrize("point", EVENTS_BEFORE)
def test_a_worker_is_stopped_at_a_crash_point_until_it_is_resumed(probe: Probe, point: CrashPoint) -> None:
    start_job_fault(probe.job_faults, "crash-1", JobFault(on="worker-1", at=point, crash="pause", every_nth=1))
    probe.hand_over(make_job(1))
    wait_for(lambda: psutil.Process(probe.process.pid).status() == psutil.STATUS_STOPPED, "the stop of the worker")
    time.sleep(0.1)
    assert [event.event for event in probe.events()] == EVENTS_BEFORE[point]
    assert read_announced_job(probe.job_faults, "crash-1", "worker-1", "pause") == 1
    end_job_fault(probe.job_faults, "crash-1")
    probe.process.send_signal(signal.SIGCONT)
    assert probe.read_message("ok", "error") == {"ok": True}
    assert [event.event for event in probe.events()] == ["claimed", "worked", "completed"]


def test_the_passages_of_a_crash_point_are_drawn_from_the_fault_s_seed(probe: Probe) -> None:
    crash = JobFault(on="workers", at=CrashPoint.AFTER_CLAIM, crash="kill", share=SHARE, seed=2)
    start_job_fault(probe.job_faults, "crash-1", crash)
    fatal = next(number for number in count(1) if draw("2 worker-1", number))
    assert fatal >= 3, "a seed that shows more than the first draw"
    assert [probe.execute(make_job(number)) for number in range(1, fatal)] == [{"ok": True}] * (fatal - 1)
    assert probe.execute(make_job(fatal)) == {}


def test_workers_that_wait_for_the_first_phase_begin_at_sigusr1(command: ProbeCommand, tmp_path: Path) -> None:
    with started(command, tmp_path, wait_for_go=True) as probe:
        probe.read_message("ready")
        probe.hand_over(make_job(1))
        time.sleep(0.3)
        assert not probe.events()
        probe.process.send_signal(signal.SIGUSR1)
        assert probe.read_message("ok") == {"ok": True}


def test_a_worker_that_waits_for_the_first_phase_ends_in_order_when_it_is_asked_to_stop(
    command: ProbeCommand, tmp_path: Path
) -> None:
    orderly = 143 if command.argv[0].endswith("/java") else 0  # Java's own code, which the definition of a library names
    with started(command, tmp_path, wait_for_go=True) as probe:
        probe.read_message("ready")
        probe.process.send_signal(signal.SIGTERM)
        assert probe.process.wait(PATIENCE_S) == orderly


def test_a_worker_that_waits_for_the_first_phase_does_not_end_with_its_input(command: ProbeCommand, tmp_path: Path) -> None:
    """The bench ends a worker's input after the document."""
    with started(command, tmp_path, wait_for_go=True) as probe:
        probe.read_message("ready")
        assert probe.process.stdin is not None
        probe.process.stdin.close()
        probe.process.stdin = None  # so that the end of the block does not close it again
        time.sleep(0.5)
        assert probe.process.poll() is None


def test_a_contract_module_is_short() -> None:
    for path in CONTRACT.glob("*/*.*"):
        assert len(path.read_text().splitlines()) <= 120, path


def test_each_file_of_an_adapter_is_short() -> None:
    languages = {path.suffix for path in CONTRACT.glob("*/*.*")}
    paths = [path for path in CONTRACT.parent.glob("*/*.*") if path.suffix in languages and path.parent != CONTRACT]
    assert {path.parent.name for path in paths} >= set(find_libraries())
    for path in paths:
        assert len(path.read_text().splitlines()) <= 150, path
