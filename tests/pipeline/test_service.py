"""A service that makes the tables of several commands: one Java for all of them, none left behind, and what it cannot do is done without it."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import psutil
import pytest

from stallbench.pipeline.process import PipelineProcess, make_tables
from stallbench.pipeline.service import SERVICE_VARIABLE
from stallbench.pipeline.tables import read_table
from stallbench.run.folder import RunFolder
from stallbench.waiting import wait_until
from tests.pipeline.test_process import DEADLINE_S, java_of
from tests.synthetic_run import SyntheticRun
from tests.waiting import wait_for

pytestmark = pytest.mark.timeout(600)  # the service starts Java, on a machine that may be busy with others


@pytest.fixture
def scratch(tmp_path: Path) -> Path:
    """Where the service keeps its files."""
    folder = tmp_path / "scratch"
    folder.mkdir()
    return folder


@pytest.fixture
def service(tmp_path: Path, scratch: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[subprocess.Popen[str]]:
    """A service that this process uses."""
    process = start(tmp_path / "socket", scratch)
    monkeypatch.setenv(SERVICE_VARIABLE, str(tmp_path / "socket"))
    assert wait_until((tmp_path / "socket").exists, within_s=DEADLINE_S)
    yield process
    process.kill()
    process.communicate()


def start(path: Path, scratch: Path, program: Sequence[str] = ("-m", "stallbench.pipeline.service")) -> subprocess.Popen[str]:
    command = [sys.executable, *program, str(path)]
    environment = {**os.environ, "TMPDIR": str(scratch)}
    return subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, text=True)


def make_folder(path: Path, jobs: int) -> RunFolder:
    run = SyntheticRun(path)
    for job in range(1, jobs + 1):
        run.live(job, at_s=1)
    return RunFolder(run.write(final_snapshot={}))


@pytest.fixture
def own_processes(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The folders for which this process would have started a pipeline of its own."""
    folders: list[str] = []

    def start_another(command: list[str], **_: Any) -> subprocess.CompletedProcess[str]:
        folders.append(command[command.index("stallbench.pipeline") + 1])
        return subprocess.CompletedProcess(command, 0)

    monkeypatch.setattr("stallbench.pipeline.process.subprocess.run", start_another)
    return folders


@pytest.mark.long  # without Spark, below; that Java ends with the pipeline's input: test_process
def test_commands_share_one_java_which_ends_with_the_service(
    tmp_path: Path, scratch: Path, service: subprocess.Popen[str], own_processes: list[str]
) -> None:
    first, second = make_folder(tmp_path / "first", 1), make_folder(tmp_path / "second", 2)
    make_tables(first)
    (java,) = java_of(scratch)
    with PipelineProcess() as kept:
        kept.make_tables(second)
    assert java_of(scratch) == [java]
    assert [len(read_table(folder.path, "jobs")) for folder in (first, second)] == [1, 2]
    assert own_processes == []

    below = psutil.Process(service.pid).children(recursive=True)
    service.send_signal(signal.SIGTERM)
    _, err = service.communicate(timeout=DEADLINE_S)
    assert (service.returncode, err) == (0, "")
    assert java in below
    assert psutil.wait_procs(below, timeout=DEADLINE_S)[1] == []
    assert list(scratch.iterdir()) == []
    assert not (tmp_path / "socket").exists()


WITHOUT_SPARK = """
import contextlib, os, subprocess, sys
from pathlib import Path
from stallbench.pipeline import __main__ as pipeline, process, service
from stallbench.pipeline.failures import RunFolderError

def write_no_tables(spark, folder):
    (Path(folder).parent / f"pipeline-{os.getpid()}").touch()
    if not (Path(folder) / "run.json").exists():
        raise RunFolderError("not a run's folder")

def start():
    command = [sys.executable, "-c", program, program, "--one-after-the-other"]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)

pipeline.open_session, pipeline.write_tables, process._start = contextlib.nullcontext, write_no_tables, start
program = sys.argv.pop(1)
(pipeline if "--one-after-the-other" in sys.argv else service).main()
"""
"""A service whose pipelines have no Spark: each leaves its process id beside the runs that it is given."""


def test_commands_share_one_pipeline_until_it_fails_and_it_ends_with_the_service(
    tmp_path: Path, scratch: Path, own_processes: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    broken, *others = (make_folder(tmp_path / name, 1) for name in ("broken", "first", "second"))
    broken.record.unlink()
    service = start(tmp_path / "socket", scratch, ["-c", WITHOUT_SPARK, WITHOUT_SPARK])
    monkeypatch.setenv(SERVICE_VARIABLE, str(tmp_path / "socket"))
    try:
        wait_for((tmp_path / "socket").exists, "the service", DEADLINE_S)
        make_tables(broken)
        assert own_processes == [str(broken.path)], "the service says that it cannot"
        (failed,) = pipelines_of(tmp_path)
        assert not psutil.pid_exists(failed)
        for folder in others:
            make_tables(folder)
        (kept,) = pipelines_of(tmp_path) - {failed}
        assert own_processes == [str(broken.path)]

        below = psutil.Process(service.pid).children(recursive=True)
        assert kept in [process.pid for process in below]
        service.terminate()
        _, err = service.communicate(timeout=DEADLINE_S)
        assert (service.returncode, err) == (0, "")
        assert psutil.wait_procs(below, timeout=DEADLINE_S)[1] == []
        assert list(scratch.iterdir()) == []
        assert not (tmp_path / "socket").exists()
    finally:
        service.kill()
        service.communicate()


def pipelines_of(folder: Path) -> set[int]:
    return {int(path.name.partition("-")[2]) for path in folder.glob("pipeline-*")}


@pytest.mark.parametrize("answer", ["not made\n", "ma", "", None], ids=["it cannot", "it dies", "it is silent", "there is none"])
def test_what_a_service_does_not_make_a_command_makes_itself(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, own_processes: list[str], answer: str | None
) -> None:
    folder = make_folder(tmp_path / "run", 1)
    monkeypatch.setenv(SERVICE_VARIABLE, str(tmp_path / "other"))
    asked: list[str] = []
    with socket.socket(socket.AF_UNIX) as listening:
        if answer is not None:
            listening.bind(str(tmp_path / "other"))
            listening.listen()
            thread = threading.Thread(target=answer_once, args=(listening, answer, asked))
            thread.start()
        make_tables(folder)
        if answer is not None:
            thread.join(DEADLINE_S)
            assert asked == [f"{folder.path}\n"]
    assert own_processes == [str(folder.path)]


def answer_once(listening: socket.socket, answer: str, asked: list[str]) -> None:
    connection, _ = listening.accept()
    with connection, connection.makefile("rw") as stream:
        asked.append(stream.readline())
        stream.write(answer)


def test_a_service_starts_no_java_before_it_is_asked_and_nobody_else_can_ask(
    tmp_path: Path, scratch: Path, service: subprocess.Popen[str]
) -> None:
    assert (tmp_path / "socket").stat().st_mode & 0o077 == 0
    assert psutil.Process(service.pid).children() == []
    second = start(tmp_path / "socket", scratch)
    _, err = second.communicate(timeout=DEADLINE_S)
    assert second.returncode == 2
    assert err == f"{tmp_path}/socket: Address already in use; expected the path of a socket that does not exist yet\n"
    assert (tmp_path / "socket").exists(), "the second takes nothing from the first"
