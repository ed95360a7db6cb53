"""The file system that loses unsynced data: what survives a power failure, what does not, and that nothing of it is left."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
from pydantic import SecretStr

from stallbench.engines.starter import StartContext
from stallbench.engines.volatile_disk import VolatileDisk, require_volatile_disk
from stallbench.errors import NotCarriedOutError
from stallbench.processes.supervisor import Supervisor

pytestmark = pytest.mark.integration

PATIENCE_S = 60.0

WRITE = """
import os
from pathlib import Path
data = Path({folder!r})

def write(name, content, flags=0):
    fd = os.open(data / name, os.O_CREAT | os.O_RDWR | flags, 0o600)
    assert os.write(fd, content) == len(content)
    return fd

write("never synced", b"x" * 10_000)
os.fsync(write("synced", b"x" * 10_000))
os.fdatasync(write("data synced", b"x" * 10_000))
write("each write a sync", b"x" * 10_000, os.O_DSYNC)

fd = write("synced, then written", b"a" * 10_000)
os.fsync(fd)
os.pwrite(fd, b"b" * 100, 4_090)
os.pwrite(fd, b"c" * 10, 20_000)
seen = os.pread(fd, 30_000, 0)
assert seen == b"a" * 4_090 + b"b" * 100 + b"a" * 5_810 + bytes(10_000) + b"c" * 10
assert os.stat(data / "synced, then written").st_size == 20_010

fd = write("synced, then cut off", b"a" * 10_000)
os.fsync(fd)
os.ftruncate(fd, 5_000)
os.ftruncate(fd, 9_000)
assert os.pread(fd, 10_000, 0) == b"a" * 5_000 + bytes(4_000)

fd = write("cut off, then synced", b"a" * 10_000)
os.fsync(fd)
os.ftruncate(fd, 5_000)
os.ftruncate(fd, 9_000)
os.fsync(fd)

os.fsync(write("before", b"x"))
os.rename(data / "before", data / "after")
os.fsync(write("removed", b"x"))
os.remove(data / "removed")
fd = write("removed while open", b"x" * 5_000)
os.remove(data / "removed while open")
assert os.pread(fd, 10_000, 0) == b"x" * 5_000 and os.fstat(fd).st_size == 5_000
"""


@pytest.fixture(autouse=True)
def _is_possible_here() -> None:
    """Skip the tests, with the machine's reason, where the file system cannot be mounted."""
    try:
        require_volatile_disk()
    except NotCarriedOutError as error:
        pytest.skip(str(error))


@pytest.fixture
def processes() -> Iterator[Supervisor]:
    supervisor = Supervisor("test")
    yield supervisor
    supervisor.stop_all()


def make_disk(folder: Path, processes: Supervisor) -> VolatileDisk:
    context = StartContext(scratch=folder, logs=folder, processes=processes, password=SecretStr(""))
    (folder / "data").mkdir()
    return VolatileDisk(folder / "data", user=None, context=context)


def run_on(disk: VolatileDisk, program: str) -> None:
    argv = disk.enter([sys.executable, "-c", program.format(folder=str(disk.path))], signal.SIGKILL)
    ended = subprocess.run(argv, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr


def content(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_a_power_failure_loses_what_was_not_synced_and_nothing_else(tmp_path: Path, processes: Supervisor) -> None:
    disk = make_disk(tmp_path, processes)
    run_on(disk, WRITE)
    dropped = disk.lose_power()
    left: dict[str, Any] = {
        "never synced": b"",  # a name is durable at once, contents and size are not
        "synced": b"x" * 10_000,
        "data synced": b"x" * 10_000,
        "each write a sync": b"x" * 10_000,
        "synced, then written": b"a" * 10_000,
        "synced, then cut off": b"a" * 10_000,
        "cut off, then synced": b"a" * 5_000 + bytes(4_000),
        "after": b"x",
    }
    assert content(disk.path) == left
    assert dropped["unsynced_files"] == 4
    assert dropped["unsynced_bytes"] > 10_000
    disk.mount()
    run_on(disk, "from pathlib import Path; assert Path({folder!r}, 'synced').read_bytes() == b'x' * 10_000")


def test_nothing_is_left_of_it_when_the_bench_is_killed(tmp_path: Path) -> None:
    bench = subprocess.Popen([sys.executable, "-c", HOLD, str(tmp_path)], stdout=subprocess.PIPE, text=True)
    assert bench.stdout is not None
    holder = psutil.Process(int(bench.stdout.readline()))
    bench.send_signal(signal.SIGKILL)
    bench.wait()
    assert psutil.wait_procs([holder], timeout=PATIENCE_S)[1] == []
    assert str(tmp_path) not in Path("/proc/mounts").read_text()


HOLD = """
import sys, time
from pathlib import Path
from stallbench.processes.supervisor import Supervisor
from tests.integration.test_volatile_disk import make_disk
print(make_disk(Path(sys.argv[1]), Supervisor("test"))._holder.pid, flush=True)
time.sleep(600)
"""
