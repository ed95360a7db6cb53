"""Runs of the whole bench as a user starts it: the command itself, in a process of its own."""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
import pytest

from stallbench import cli
from stallbench.pipeline.service import SERVICE_VARIABLE
from stallbench.pipeline.tables import read_table
from stallbench.processes.reaper import OWNER_FILE, SCRATCH_PREFIX, TOKEN_VARIABLE
from stallbench.records.endpoint import Endpoint
from tests.integration.engines import PrivateServers, private_servers
from tests.waiting import wait_for

SHORT = (
    "phases.warmup.duration=1s",
    "phases.baseline.duration=3s",
    "phases.longtx.duration=4s",
    "phases.longtx.jobs=1",
    "phases.recovery.duration=2s",
    "phases.recovered.duration=2s",
    "producers.max_batch=600",
    "workers.count=2",
    "expect=[]",
)
"""`longtx`, too short for its expectations, which are left out. Its phase is not made longer for a number of jobs that were due, either.

A batch is also what a phase's load may be off at its edges: twelve seconds of `RATE`, for which a busy machine may stand still just then.
"""
RATE = "producers.rate=50"
"""In the place of a load that would have to be measured first. Each job costs more than 2 ms of a processor, most of it in server and proxy."""
BUSY = "producers.rate=200"
"""For kills at random moments: so many jobs that they hit some."""
_TEST_S = 1200
_COMMAND_S = 600.0


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Give these tests longer than others: each starts servers and Java, some several times, which may take three times as long as usual."""
    for item in items:
        if item.path.is_relative_to(Path(__file__).parent) and item.get_closest_marker("timeout") is None:
            item.add_marker(pytest.mark.timeout(_TEST_S))


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PrivateServers]:
    """Servers of the tests of one file, which a command connects to as to a user's."""
    with private_servers(tmp_path_factory.mktemp("servers")) as started:
        yield started


@pytest.fixture
def server(servers: PrivateServers) -> Iterator[Endpoint]:
    """An empty database on PostgreSQL."""
    with servers.empty("postgres") as endpoint:
        yield endpoint


@dataclass(frozen=True, slots=True)
class Bench:
    """The command line, with a place of its own for runs."""

    runs: Path
    pipeline: Path | None = None
    """Where the service listens that makes the tables; none if each command makes them in a process of its own, as users' commands do."""

    def start(self, *arguments: str, environment: dict[str, str] | None = None) -> subprocess.Popen[str]:
        """Start ``stallbench`` with ``arguments`` and return at once."""
        return subprocess.Popen(
            [sys.executable, "-c", "from stallbench.cli import main; main()", *arguments, "--runs", str(self.runs)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={
                **os.environ,
                **({SERVICE_VARIABLE: str(self.pipeline)} if self.pipeline else {}),
                **(environment or {}),
            },
        )

    def run(self, *arguments: str, environment: dict[str, str] | None = None) -> subprocess.CompletedProcess[str]:
        """Run ``stallbench`` with ``arguments`` to its end."""
        process = self.start(*arguments, environment=environment)
        out, err = process.communicate(timeout=_COMMAND_S)
        return subprocess.CompletedProcess(arguments, process.returncode, out, err)

    def folder(self) -> Path:
        """Return the newest run's folder; while it is measured what the workers can do, that of the measuring."""
        measuring = sorted(self.runs.glob("*-measuring"))
        return measuring[-1] if measuring else (self.runs / "latest").resolve()

    def record(self) -> dict[str, Any]:
        """Return the newest run's ``run.json``."""
        content: dict[str, Any] = json.loads((self.folder() / "run.json").read_text())
        return content

    def verdict(self) -> dict[str, Any]:
        """Return the newest run's ``verdict.json``."""
        content: dict[str, Any] = json.loads((self.folder() / "verdict.json").read_text())
        return content

    def wait_for_phase(self, name: str, within_s: float = 240) -> dict[str, Any]:
        """Wait until a phase has begun; returns the record."""

        def find_record() -> dict[str, Any] | None:
            # There may be no run yet, or that of the measuring has just gone.
            with suppress(FileNotFoundError):
                record = self.record()
                if any(phase["name"] == name and phase["start_ns"] for phase in record["phases"]):
                    return record
            return None

        return wait_for(find_record, f"phase {name}", within_s)


def short(*changes: str) -> list[str]:
    """Return the options that make `longtx` short, and ``changes`` besides."""
    return measured(RATE, *changes)


def measured(*changes: str) -> list[str]:
    """Return the same without a rate: what the workers can do is measured first."""
    return [part for change in (*SHORT, *changes) for part in ("--set", change)]


def marked_processes() -> list[psutil.Process]:
    """Return every process on this machine that a run has started and that still lives.

    What they are called, and whose child each is, stands in their ``info``: the next moment one may be gone.
    """
    return [
        process
        for process in psutil.process_iter(["environ", "name", "ppid", "status"])
        if TOKEN_VARIABLE in (process.info["environ"] or {}) and process.info["status"] != psutil.STATUS_ZOMBIE
    ]


def scratch_folders(pid: int) -> list[Path]:
    """Return the temporary folders of the bench with ``pid``."""
    found = []
    for owner in Path(tempfile.gettempdir()).glob(f"{SCRATCH_PREFIX}*/{OWNER_FILE}"):
        # That of a test beside this one may be about to be written, or removed.
        with suppress(FileNotFoundError, json.JSONDecodeError):
            if json.loads(owner.read_text())["pid"] == pid:
                found.append(owner.parent)
    return found


def marked_with_folder(folder: Path) -> list[psutil.Process]:
    """Return the processes of the run in ``folder`` that still live."""
    pids = {process["pid"] for process in json.loads((folder / "run.json").read_text())["processes"]}
    return [process for process in marked_processes() if process.pid in pids or process.info["ppid"] in pids]


def assert_nothing_is_left(bench: Bench, pid: int, within_s: float = 60) -> None:
    """Wait until no process and no temporary folder of the bench with ``pid`` is there any more."""

    def list_left() -> list[object]:
        return [*marked_with_folder(bench.folder()), *scratch_folders(pid)]

    wait_for(lambda: not list_left(), lambda: f"the end of what is left behind, {list_left()},", within_s, every_s=0.1)


def kill_at_random_moments(record: dict[str, Any], roles: tuple[str, ...], seed: int) -> list[str]:
    """Kill the first process of each of ``roles``, one after the other, each within three seconds; returns their names."""
    victims = [next(process for process in record["processes"] if process["role"] == role) for role in roles]
    moments = random.Random(seed)
    for victim in moments.sample(victims, len(victims)):
        time.sleep(moments.uniform(0, 3))
        os.kill(victim["pid"], signal.SIGKILL)
    return [victim["name"] for victim in victims]


def assert_every_job_is_accounted_for(bench: Bench) -> None:
    """The newest run has no job in another state than the deaths of processes can leave it in."""
    (finding,) = [finding for finding in bench.verdict()["findings"] if finding["check"] == "conservation"]
    assert finding["result"] == "pass", finding["reason"]
    conservation = read_table(bench.folder(), "conservation")
    assert set(conservation[conservation["jobs"] > 0]["state"]) <= {
        "completed",
        "queued",
        "enqueued",
        "completed_unrecorded",
        "enqueue_unrecorded",
    }


@pytest.fixture(scope="session")
def use_pipeline_service(pipeline_service: Path | None) -> Iterator[None]:
    """Let the service make the tables that this process wants."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(SERVICE_VARIABLE, str(pipeline_service or ""))
        yield


@pytest.fixture
def bench(tmp_path: Path, pipeline_service: Path | None) -> Iterator[Bench]:
    """The command line; whatever it started that still runs when the test ends is killed."""
    with watched(Bench(tmp_path / "runs", pipeline_service)) as made:
        yield made


@pytest.fixture
def own_tmp() -> Iterator[Path]:
    """Where a bench keeps its files: a test finds there what this bench has left, and nothing of tests beside it. Servers run as another user."""
    folder = Path(tempfile.mkdtemp(prefix="own-tmp-"))
    folder.chmod(0o755)
    yield folder
    shutil.rmtree(folder, ignore_errors=True)


RunHere = Callable[..., "subprocess.CompletedProcess[str]"]
"""What the fixture `run_here` is."""


@pytest.fixture
def run_here(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> RunHere:
    """Runs the command line in this process, which has imported it already: what reads a run, or is refused before the run begins."""

    def run(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
        monkeypatch.setattr(sys, "argv", ["stallbench", *map(str, arguments)])
        with pytest.raises(SystemExit) as ended:
            cli.main()
        assert isinstance(ended.value.code, int)
        return subprocess.CompletedProcess(arguments, ended.value.code, *capsys.readouterr())

    return run


@pytest.fixture
def bench_with_own_pipeline(tmp_path: Path) -> Iterator[Bench]:
    """The same, but each command starts its own Spark."""
    with watched(Bench(tmp_path / "runs")) as made:
        yield made


@contextmanager
def watched(made: Bench) -> Iterator[Bench]:
    """Kill whatever it started that still runs when the block ends."""
    yield made
    if (made.folder() / "run.json").exists():
        for process in marked_with_folder(made.folder()):
            with suppress(psutil.NoSuchProcess):
                process.send_signal(signal.SIGKILL)
