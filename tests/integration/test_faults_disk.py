"""A full disk under PostgreSQL's WAL, and under the queue's tables: its effect on the server and its clients, and that nothing is left."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import psutil
import psycopg
import pytest

from stallbench.engines.postgres.driver import connect
from stallbench.engines.postgres.small_disk import SmallDisk
from stallbench.errors import NotCarriedOutError
from stallbench.processes.supervisor import Supervisor
from stallbench.records.events import Event
from tests.integration.faulty_run import PATIENCE_S, faulty_run

pytestmark = pytest.mark.integration

_HOLD = """
import sys, time
from pathlib import Path
from stallbench.processes.supervisor import Supervisor
from stallbench.setup.server_programs import unprivileged_user
from stallbench.engines.postgres.small_disk import SmallDisk
folder = Path(sys.argv[1])
disk = SmallDisk(folder / "disk", megabytes=16, user=unprivileged_user(), logs=folder, processes=Supervisor("test"))
print(disk._holder.pid, flush=True)
time.sleep(600)
"""


@pytest.fixture(autouse=True)
def _disk_can_be_had(tmp_path: Path) -> None:
    """Skip the tests, with the machine's reason, where mount namespaces cannot be created."""
    processes = Supervisor("look")
    try:
        SmallDisk(tmp_path / "look", megabytes=16, user=None if os.geteuid() else "nobody", logs=tmp_path, processes=processes)
    except NotCarriedOutError as error:
        pytest.skip(str(error))
    finally:
        processes.stop_all()


def test_a_server_that_cannot_write_its_wal_stops_and_returns_when_there_is_space(tmp_path: Path) -> None:
    with faulty_run(tmp_path, workers=1, database='small_disk = "wal"') as run:
        run.wait_until_jobs_complete()
        first = run.process("primary")
        struck = run.inject("full_disk")
        assert struck.evidence["free_bytes"] < 4096
        # There is room left in the WAL's segment of 1 MB; who writes much is at the next one sooner.
        with suppress(psycopg.Error), connect(run.cluster.server("primary").direct, "test") as connection:
            connection.execute("CREATE TABLE much AS SELECT repeat('x', 1000) FROM generate_series(1, 2000)")
        run.wait_until(lambda: first.poll() is not None, "the server's end", within_s=60)
        run.cluster.check()
        ended = run.end_faults()
        assert ended.active_to_end
        assert ended.evidence["server_ended"]
        assert ended.evidence["failed_writes"] > 0
        assert ended.evidence["free_bytes_after"] > 1 << 20
        run.wait_until_jobs_complete(within_s=60)
        assert run.process("primary") is not first


def test_a_disk_that_the_server_fills_by_itself_is_made_larger_afterwards(tmp_path: Path) -> None:
    with faulty_run(tmp_path, workers=1, database='small_disk = "wal"\nsmall_disk_mb = 32') as run:
        run.wait_until_jobs_complete()
        free_bytes = run.inject("full_disk", ballast=False, enlarge_after="0s").evidence["free_bytes"]
        assert free_bytes > 4 << 20
        with suppress(psycopg.Error), connect(run.cluster.server("primary").direct, "test") as connection:
            connection.execute("CREATE TABLE much AS SELECT repeat('x', 1000) FROM generate_series(1, 40000)")
        run.wait_until(lambda: run.faults()[-1].verified_gone_ns is not None, "the end of the fault", within_s=120)
        ended = run.faults()[-1]
        assert ended.active_to_end
        assert ended.evidence["failed_writes"] > 0
        assert ended.evidence["free_bytes_after"] > 64 << 20
        run.wait_until_jobs_complete(within_s=60)


def test_a_full_table_space_refuses_new_rows_and_nothing_else(tmp_path: Path) -> None:
    with faulty_run(tmp_path, workers=1, database='small_disk = "tables"\nsmall_disk_mb = 32') as run:
        run.wait_until_jobs_complete()
        since_ns = time.time_ns()
        run.inject("full_disk")
        run.wait_until(lambda: len(run.events(Event.REFUSED, since_ns)) > 10, "refused jobs", within_s=60)
        assert all("disk is full" in row["detail"] for row in run.events(Event.REFUSED, since_ns))
        assert run.events(Event.ERROR, since_ns) == []
        server = run.process("primary")
        ended = run.end_faults()
        assert ended.active_to_end
        assert not ended.evidence["server_ended"]
        assert server.poll() is None
        assert server.intended == "running"
        run.wait_until_jobs_complete()


def test_a_full_disk_without_a_failed_write_is_noticed(tmp_path: Path) -> None:
    with faulty_run(tmp_path, workers=0, database='small_disk = "tables"') as run:
        run.processes.stop(run.load.running("producer"), PATIENCE_S)
        run.inject("full_disk")
        ended = run.end_faults()
        assert ended.active_to_end is False
        assert "did not try to write more" in ended.why_ended


def test_it_requires_a_small_disk(tmp_path: Path) -> None:
    with faulty_run(tmp_path, workers=0) as run, pytest.raises(NotCarriedOutError, match=r"database\.small_disk"):
        run.inject("full_disk")


def test_nothing_is_left_of_the_disk_when_the_bench_is_killed(tmp_path: Path) -> None:
    bench = subprocess.Popen([sys.executable, "-c", _HOLD, str(tmp_path)], stdout=subprocess.PIPE, text=True)
    assert bench.stdout is not None
    holder = psutil.Process(int(bench.stdout.readline()))
    assert (tmp_path / "disk").stat().st_dev == tmp_path.stat().st_dev  # it is not visible outside its mount namespace
    bench.send_signal(signal.SIGKILL)
    bench.wait()
    assert psutil.wait_procs([holder], timeout=PATIENCE_S)[1] == []
    assert str(tmp_path) not in Path("/proc/mounts").read_text()
