"""What cannot be carried out ends with code 3 and one message, with nothing left running and nothing half written."""

from __future__ import annotations

import os
import socket
import subprocess
from pathlib import Path

import pytest

from tests.end_to_end.conftest import Bench, RunHere, assert_nothing_is_left, short

pytestmark = pytest.mark.end_to_end


def test_a_port_in_use(bench: Bench) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        ended = bench.run("run", "longtx", *short(f"database.port={port}"))
    assert ended.returncode == 3
    assert f"database.port: port {port} on 127.0.0.1 is in use; choose another one" in ended.stderr
    assert "Traceback" not in ended.stderr
    assert bench.record()["status"] == "failed"
    assert_nothing_is_left(bench, bench.record()["bench"]["pid"])


@pytest.mark.parametrize(
    ("setting", "told"),
    [
        ('database.settings.wal_level="nonsense"', 'invalid value for parameter "wal_level"'),
        pytest.param(
            "database.settings.no_such_setting=1",
            'unrecognized configuration parameter "no_such_setting"',
            marks=pytest.mark.long,
        ),
        pytest.param('database.settings.shared_buffers="900TB"', "shared_buffers", marks=pytest.mark.long),
    ],
)
def test_a_server_that_dies_while_starting(bench: Bench, setting: str, told: str) -> None:
    ended = bench.run("run", "longtx", *short(setting))
    assert ended.returncode == 3
    assert "server primary ended with exit code" in ended.stderr
    assert told in ended.stderr
    assert "Traceback" not in ended.stderr
    assert_nothing_is_left(bench, bench.record()["bench"]["pid"])


def test_a_version_that_is_not_installed(run_here: RunHere, tmp_path: Path) -> None:
    ended = run_here("run", "longtx", *short("database.version=98"), "--runs", str(tmp_path / "runs"))
    assert ended.returncode == 3
    assert "PostgreSQL 98 is not available here; available: " in ended.stderr
    assert "Traceback" not in ended.stderr


def test_a_longrunner_that_cannot_hold(run_here: RunHere, tmp_path: Path) -> None:
    path = tmp_path / "prepared.toml"
    path.write_text(
        """
        summary = "A prepared transaction on a server that allows none."
        [queue]
        kind = "que"
        [producers]
        rate = 10
        [[phases]]
        name = "baseline"
        duration = "1s"
        [[phases]]
        name = "prepared"
        duration = "1s"
        longrunners = [{ kind = "prepared" }]
        """
    )
    ended = run_here("run", str(path), "--runs", str(tmp_path / "runs"))
    assert ended.returncode == 2
    assert "max_prepared_transactions" in ended.stderr
    assert "Traceback" not in ended.stderr


def test_a_runs_folder_that_is_a_file(run_here: RunHere, tmp_path: Path) -> None:
    (tmp_path / "runs").write_text("a file")
    ended = run_here("run", "longtx", *short(), "--runs", str(tmp_path / "runs"))
    assert ended.returncode == 3
    assert "a run's folder cannot be made there" in ended.stderr
    assert "choose another folder with --runs DIR" in ended.stderr


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can mount a small file system")
@pytest.mark.parametrize("read_only", [pytest.param(True, marks=pytest.mark.long), False], ids=["read-only", "full"])
def test_a_disk_that_takes_no_records(bench: Bench, read_only: bool) -> None:
    bench.runs.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size=300k{',ro' if read_only else ''}", "tmpfs", str(bench.runs)],
        check=False,
        capture_output=True,
    )
    if mounted.returncode != 0:
        pytest.skip("this machine does not allow mounts")
    try:
        ended = bench.run("run", "longtx", *short("producers.rate=2000"))
        assert ended.returncode == 3
        told = "Read-only file system" if read_only else "No space left on device"
        logs = "".join(log.read_text(errors="replace") for log in bench.runs.glob("*/logs/*.log"))
        assert told in ended.stderr + logs
        assert "Traceback" not in ended.stderr
        if not read_only:
            assert_nothing_is_left(bench, bench.record()["bench"]["pid"])
    finally:
        subprocess.run(["umount", str(bench.runs)], check=True)


def test_a_component_that_is_not_at_its_configured_path_is_named(
    run_here: RunHere, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STALLBENCH_POSTGRES_BIN", str(tmp_path))
    ended = run_here("run", "longtx", *short(), "--runs", str(tmp_path / "runs"))
    assert ended.returncode == 3
    assert "expected a folder with the programs of PostgreSQL 14 or later" in ended.stderr
    assert "Traceback" not in ended.stderr
