"""``pip install stallbench`` alone: few packages, no Java, and every command either works or names the line that installs what it needs."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from stallbench import PROJECT
from stallbench.engines.database import Database
from tests.integration.running_cluster import running_cluster
from tests.wheel import build_wheel

pytestmark = [pytest.mark.end_to_end, pytest.mark.long]

MOST_DISTRIBUTIONS = 15
"""Beside stallbench and the pip of the environment."""
MOST_BYTES = 80e6

Command = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A new environment with the wheel and what ``requirements/light.lock`` has, which pip downloads."""
    folder = tmp_path_factory.mktemp("light")
    subprocess.run([sys.executable, "-m", "venv", str(folder / "venv")], check=True)
    install = [str(folder / "venv" / "bin" / "python"), "-m", "pip", "install", "--quiet"]
    subprocess.run([*install, "--require-hashes", "--requirement", str(PROJECT / "requirements" / "light.lock")], check=True)
    subprocess.run([*install, "--no-index", str(build_wheel(folder / "build"))], check=True)
    return folder / "venv"


@pytest.fixture
def stallbench(environment: Path, tmp_path: Path) -> Command:
    """The command, in an empty folder, on a machine without Java."""
    empty = tmp_path / "empty"
    empty.mkdir()

    def run(*arguments: str, exit_code: int = 0, **variables: str) -> subprocess.CompletedProcess[str]:
        ended = subprocess.run(
            [environment / "bin" / "stallbench", *arguments],
            cwd=empty,
            env={"PATH": os.defpath, "HOME": str(tmp_path), **variables},
            capture_output=True,
            text=True,
            check=False,
            timeout=120,
        )
        assert ended.returncode == exit_code, ended.stdout + ended.stderr
        assert "Traceback" not in ended.stderr
        return ended

    return run


def test_it_is_small(environment: Path) -> None:
    (packages,) = environment.glob("lib/python*/site-packages")
    installed = {path.name.partition("-")[0] for path in packages.glob("*.dist-info")} - {"pip", "setuptools", "stallbench"}
    assert len(installed) <= MOST_DISTRIBUTIONS
    outside = ("pip", "setuptools", "pkg_resources", "__pycache__")
    files = [path for path in packages.rglob("*") if path.is_file() and path.relative_to(packages).parts[0] not in outside]
    assert sum(path.stat().st_size for path in files) < MOST_BYTES


def test_scenarios_are_listed_shown_and_validated_without_the_bench(stallbench: Command) -> None:
    assert "longtx" in stallbench("list").stdout
    assert '"name": "worker-crash"' in stallbench("show", "worker-crash", "--json").stdout
    assert stallbench("validate", "longtx", "failover", "store-race", "cron-twice-library").stdout == "4 files are valid\n"
    assert '"properties"' in stallbench("schema").stdout


def test_a_server_is_observed_without_the_bench(stallbench: Command, tmp_path: Path) -> None:
    with running_cluster(Database(), tmp_path) as started:
        server = started.cluster.server("primary").direct
        dsn = f"postgresql://{server.user}@{server.host}:{server.port}/{server.database}"
        report = stallbench("observe", "--dsn", dsn, "--once", PGPASSWORD=server.password.get_secret_value()).stdout
    assert "read-only as" in report


@pytest.mark.parametrize(
    "arguments", [("run", "longtx"), ("compare", "longtx"), ("doctor",), ("setup",), ("clean",)], ids=lambda each: each[0]
)
def test_a_command_that_needs_the_bench_names_the_line_that_installs_it(stallbench: Command, arguments: tuple[str, ...]) -> None:
    refused = stallbench(*arguments, exit_code=3)
    assert "pip install 'stallbench[bench]'" in refused.stderr
    assert not refused.stdout


def test_a_page_that_is_there_is_named(stallbench: Command, tmp_path: Path) -> None:
    run = tmp_path / "empty" / "reports" / "runs" / "20261120T101500Z-longtx"
    run.mkdir(parents=True)
    (run / "run.json").write_text("{}")
    assert "pip install 'stallbench[bench]'" in stallbench("report", run.name, exit_code=3).stderr
    (run / "report.html").write_text("<title>a run</title>")
    shown = stallbench("report", run.name).stdout
    assert "reports/runs/20261120T101500Z-longtx/report.html" in shown
