"""Processes that do not end as they should: killed, with all that they have started, and reported once."""

from __future__ import annotations

import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from stallbench.errors import NotCarriedOutError
from stallbench.processes.process import Process
from stallbench.processes.supervisor import Supervisor
from stallbench.waiting import wait_until
from tests.libraries.made_up import find_processes
from tests.waiting import PATIENCE_S

pytestmark = pytest.mark.slow


@pytest.fixture
def processes() -> Iterator[Supervisor]:
    supervisor = Supervisor("test-of-hard-ends")
    yield supervisor
    supervisor.stop_all(0.1)


def start(processes: Supervisor, folder: Path, code: str, name: str = "worker-1") -> Process:
    """Start a worker that executes ``code``, and wait until it has said that it is ready."""
    process = begin(processes, folder, code, name)
    process.wait_ready(PATIENCE_S)
    return process


def begin(processes: Supervisor, folder: Path, code: str, name: str = "worker-1") -> Process:
    """Start a worker that executes ``code``."""
    script = folder / "shop" / "adapter.py"
    script.parent.mkdir(exist_ok=True)
    script.write_text(f"import json, pathlib, signal, subprocess, sys, time\n{code}\n")
    return processes.start(name, "worker", [sys.executable, str(script)], log=folder / "log", document={}, ready=True)


READY = "print(json.dumps({'ready': {}}), flush=True)"


def test_one_that_hangs_at_its_end_is_killed_after_the_grace_period(processes: Supervisor, tmp_path: Path) -> None:
    process = start(processes, tmp_path, f"signal.signal(signal.SIGTERM, signal.SIG_IGN)\n{READY}\ntime.sleep(1000)")
    processes.stop([process], 0.5)
    assert processes.take_hard_ends() == ["worker-1 did not end within 0.5 s when it was asked to stop; it was ended by SIGKILL"]
    assert (process.record().intended, process.exit_code) == ("killed", -9)
    assert processes.take_hard_ends() == [], "each is reported once"


def test_each_of_several_that_hang_is_reported_with_the_whole_grace_period(processes: Supervisor, tmp_path: Path) -> None:
    hangs = f"signal.signal(signal.SIGTERM, signal.SIG_IGN)\n{READY}\ntime.sleep(1000)"
    processes.stop([start(processes, tmp_path, hangs, name) for name in ("worker-1", "worker-2")], 0.5)
    assert processes.take_hard_ends() == [
        f"{name} did not end within 0.5 s when it was asked to stop; it was ended by SIGKILL" for name in ("worker-1", "worker-2")
    ]


WHEN_TOLD = "while not pathlib.Path(__file__).with_name('go').exists(): time.sleep(0.01)"


@pytest.mark.parametrize("ends", ["time.sleep(1000)", f"{WHEN_TOLD}\nsys.exit(7)"], ids=["asked to stop", "by itself"])
def test_what_a_wrapper_leaves_behind_is_ended_with_it(processes: Supervisor, tmp_path: Path, ends: str) -> None:
    child = "subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(1000)', __file__])"
    process = start(processes, tmp_path, f"{child}\n{READY}\n{ends}")
    assert len(find_processes(tmp_path / "shop")) >= 1
    if "exit" in ends:
        (tmp_path / "shop" / "go").touch()
        assert wait_until(lambda: process.poll() is not None, within_s=PATIENCE_S, every_s=0.01)
    processes.stop([process], PATIENCE_S)
    assert processes.take_hard_ends() == ["worker-1 left processes behind when it ended; they were ended by SIGKILL"]
    assert wait_until(lambda: not find_processes(tmp_path / "shop"), within_s=PATIENCE_S, every_s=0.01)


def test_one_that_ends_in_order_is_not_reported(processes: Supervisor, tmp_path: Path) -> None:
    process = start(processes, tmp_path, f"signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))\n{READY}\ntime.sleep(1000)")
    processes.stop([process], PATIENCE_S)
    assert process.exit_code == 0
    assert processes.take_hard_ends() == []


def test_one_that_is_asked_to_stop_while_it_starts_has_not_ended_unexpectedly(processes: Supervisor, tmp_path: Path) -> None:
    """A fault may replace a process just before the run ends: it is then stopped before it can handle the signal."""
    starting = begin(processes, tmp_path, "time.sleep(1000)")
    processes.stop([starting], PATIENCE_S)
    assert starting.exit_code == -signal.SIGTERM
    assert (starting.record().intended, processes.exited_unexpectedly()) == ("killed", [])


def test_one_that_is_asked_to_stop_while_it_starts_and_ends_in_order_need_not_have_recorded_anything(
    processes: Supervisor, tmp_path: Path
) -> None:
    """The check of the records misses no events of a process that was killed."""
    in_order = "signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))\nprint('up', flush=True)\ntime.sleep(1000)"
    starting = begin(processes, tmp_path, in_order)
    assert wait_until(lambda: (tmp_path / "log").read_text() == "up\n", within_s=PATIENCE_S, every_s=0.01)
    processes.stop([starting], PATIENCE_S)
    assert (starting.exit_code, starting.record().intended) == (0, "killed")


def test_one_that_is_asked_to_stop_while_it_starts_and_fails_has_ended_unexpectedly(
    processes: Supervisor, tmp_path: Path
) -> None:
    failing = "signal.signal(signal.SIGTERM, lambda *_: sys.exit(7))\nprint('up', flush=True)\ntime.sleep(1000)"
    starting = begin(processes, tmp_path, failing)
    assert wait_until(lambda: (tmp_path / "log").read_text() == "up\n", within_s=PATIENCE_S, every_s=0.01)
    processes.stop([starting], PATIENCE_S)
    assert (starting.exit_code, processes.exited_unexpectedly()) == (7, [starting])


def test_a_worker_that_is_ready_and_does_not_handle_the_signal_has_ended_unexpectedly(
    processes: Supervisor, tmp_path: Path
) -> None:
    process = start(processes, tmp_path, f"{READY}\ntime.sleep(1000)")
    processes.stop([process], PATIENCE_S)
    assert (process.exit_code, processes.exited_unexpectedly()) == (-signal.SIGTERM, [process])


def test_garbage_between_messages_goes_to_the_log(processes: Supervisor, tmp_path: Path) -> None:
    garbage = r"sys.stdout.buffer.write(b'\xff\xfe\n' + b'[' * 100_000 + b'\n[1]\n\"text\"\n'); sys.stdout.flush()"
    process = start(processes, tmp_path, f"{garbage}\n{READY}\nprint('late', flush=True)\ntime.sleep(1000)")
    assert process.is_ready
    assert wait_until(lambda: "late" in (tmp_path / "log").read_text(errors="replace"), within_s=PATIENCE_S, every_s=0.01)
    assert '"text"' in (tmp_path / "log").read_text(errors="replace")


LOGGED = ('{"level": "info", "ready": false}', '{"ready": true}', '{"msg": "connected"}', '{"met": 1, "suspended": 2}', "{}")


def test_what_a_worker_logs_as_json_goes_to_the_log(processes: Supervisor, tmp_path: Path) -> None:
    printed = f"print(*{LOGGED!r}, sep=chr(10), flush=True)"
    process = start(processes, tmp_path, f"{printed}\n{READY}\nprint('late', flush=True)\ntime.sleep(1000)")
    assert wait_until(lambda: "late" in (tmp_path / "log").read_text(), within_s=PATIENCE_S, every_s=0.01)
    assert (tmp_path / "log").read_text().splitlines() == [*LOGGED, "late"]
    assert process.messages() == []


def test_a_worker_that_logs_json_and_ends_is_described_by_what_it_has_logged(processes: Supervisor, tmp_path: Path) -> None:
    why = '{"level": "fatal", "msg": "no licence"}'
    with pytest.raises(NotCarriedOutError) as raised:
        start(processes, tmp_path, f"print({why!r}, flush=True)\nsys.exit(3)")
    assert str(raised.value) == f"worker-1 ended with exit code 3 before it was ready; it printed last:\n  {why}"


def test_the_number_of_a_process_that_has_ended_may_be_a_stranger_s_so_it_gets_no_signal(
    processes: Supervisor, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    process = start(processes, tmp_path, READY)
    assert wait_until(lambda: process.poll() is not None, within_s=PATIENCE_S, every_s=0.01)
    sent: list[tuple[int, int]] = []
    monkeypatch.setattr("os.killpg", lambda *arguments: sent.append(arguments))
    monkeypatch.setattr("os.kill", lambda *arguments: sent.append(arguments))
    for signum in (signal.SIGSTOP, signal.SIGCONT, signal.SIGTERM, signal.SIGKILL):
        process.signal(signum)
    process.kill()
    assert sent == []
