"""What `stallbench init` creates runs as it is: as a test with the fixture, on real servers; and the same from a wheel in an environment of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from junitparser import JUnitXml

from stallbench import PROJECT
from stallbench.engines.database import Database
from stallbench.pipeline.service import SERVICE_VARIABLE
from stallbench.records.endpoint import PASSWORD_VARIABLE
from stallbench.setup.components import CACHE
from tests.integration.running_cluster import running_cluster
from tests.wheel import build_wheel

pytestmark = pytest.mark.end_to_end

_COMMAND_S = 900.0
SHORT = (
    *("producers.rate=50", "phases.warmup.duration=1s", "phases.baseline.duration=3s", "phases.longtx.duration=4s"),
    *("phases.recovery.duration=2s", "phases.recovered.duration=2s", "producers.max_batch=600", "expect=[]"),
)


@dataclass(frozen=True, slots=True)
class Installed:
    """An installed bench, and a user's folder in which it is started."""

    python: Path
    folder: Path
    environment: dict[str, str]

    def run(self, *arguments: str, exit_code: int = 0) -> str:
        """Run ``python -m`` with ``arguments`` in the folder; returns what it prints."""
        ended = subprocess.run(
            [self.python, "-m", *arguments],
            cwd=self.folder,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=_COMMAND_S,
            check=False,
        )
        assert ended.returncode == exit_code, ended.stdout + ended.stderr
        return ended.stdout

    def stallbench(self, *arguments: str, exit_code: int = 0) -> str:
        """Run the command line."""
        return self.run("stallbench.cli", *arguments, exit_code=exit_code)


def environment_with(pipeline: Path | None, **more: str) -> dict[str, str]:
    service = {SERVICE_VARIABLE: str(pipeline)} if pipeline else {}
    return {**{key: value for key, value in os.environ.items() if key != "PYTHONPATH"}, **service, **more}


@pytest.fixture
def in_clone(tmp_path: Path, pipeline_service: Path | None) -> Installed:
    """The bench of this clone; of its plugins pytest loads this one, whatever else is installed."""
    clone = environment_with(pipeline_service, PYTHONPATH=str(PROJECT), PYTEST_DISABLE_PLUGIN_AUTOLOAD="1")
    return Installed(Path(sys.executable), tmp_path, clone)


def test_the_files_of_init_run_as_they_are(in_clone: Installed) -> None:
    in_clone.stallbench("init", "bench")
    plugins = ("-p", "stallbench.testing.plugin", "-p", "no:cacheprovider")
    in_clone.run("pytest", "-q", *plugins, "--rootdir=.", "--junitxml=junit.xml", "--stallbench-reports=kept", "bench")
    (report,) = (in_clone.folder / "kept").glob("*/*-scenario/report.html")  # beside it is the link to the newest
    assert (report.parent / "verdict.json").exists()
    cases = {case.name: case for suite in JUnitXml.fromfile(str(in_clone.folder / "junit.xml")) for case in suite}
    assert not cases["dead_tuples.per_job in longtx"].result
    assert not cases["back to normal within the phase that follows"].result
    assert "Survived: the expectation holds." in (report.parent / "summary.md").read_text()


TWO_QUEUES = """
import pytest

@pytest.mark.parametrize("queue", ["skip_locked", "que"])
def test_queue(stallbench, queue):
    phases, load = {"warmup": "1s", "baseline": "3s"}, {"producers.rate": 50}
    verdict = stallbench.run("baseline", queue=queue, phases=phases, set=load, expect=[])
    assert verdict.passed, verdict.reason
"""


def run_two_queues(installed: Installed, *options: str) -> list[dict[str, Any]]:
    """Run the tests above and return the records of their runs."""
    (installed.folder / "test_mine.py").write_text(TWO_QUEUES)
    plugins = ("-p", "stallbench.testing.plugin", "-p", "no:cacheprovider")
    installed.run("pytest", "-q", *plugins, "--rootdir=.", "--stallbench-reports=kept", "--junitxml=junit.xml", *options)
    return [json.loads(path.read_text()) for path in (installed.folder / "kept").glob("*/*-baseline/run.json")]


@pytest.mark.long
def test_the_runs_of_a_session_share_a_server_if_they_are_asked_to(in_clone: Installed) -> None:
    records = run_two_queues(in_clone, "--stallbench-server=session")
    assert {record["queue"]["kind"] for record in records} == {"skip_locked", "que"}
    (port,) = {server["port"] for record in records for server in record["servers"] if server["name"] == "primary"}
    assert port


@pytest.mark.long
def test_with_xdist_each_test_process_has_its_own_server_and_one_file_has_all_cases(in_clone: Installed) -> None:
    records = run_two_queues(in_clone, "-p", "xdist", "-n", "2", "--stallbench-server=session")
    assert len({server["port"] for record in records for server in record["servers"] if server["name"] == "primary"}) == 2
    suites = JUnitXml.fromfile(str(in_clone.folder / "junit.xml"))
    assert sum(case.name == "every job is accounted for" for suite in suites for case in suite) == 2, "one for each run"


@pytest.fixture(scope="module")
def wheel_python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The Python of a new environment with the wheel. The locked dependencies are those of this environment, read from where they are."""
    folder = tmp_path_factory.mktemp("wheel")
    environment = folder / "venv"
    subprocess.run([sys.executable, "-m", "venv", str(environment)], check=True)
    (packages,) = environment.glob("lib/python*/site-packages")
    locked = Path(pytest.__file__).parents[1]
    # Only a folder on the path: what an editable installation has there is not executed.
    (packages / "locked.pth").write_text(f"{locked}\n")
    python = environment / "bin" / "python"
    subprocess.run([python, "-m", "pip", "install", "--quiet", "--no-deps", str(build_wheel(folder / "build"))], check=True)
    return python


@pytest.fixture
def from_wheel(wheel_python: Path, tmp_path: Path, pipeline_service: Path | None) -> Installed:
    """The wheel in an empty folder. Its cache is that of this clone, so that nothing has to be downloaded."""
    cache = tmp_path / "cache"
    cache.mkdir()
    (cache / "stallbench").symlink_to(CACHE)
    folder = tmp_path / "project"
    folder.mkdir()
    return Installed(wheel_python, folder, environment_with(pipeline_service, XDG_CACHE_HOME=str(cache)))


@pytest.mark.long
def test_the_wheel_works_in_another_folder(from_wheel: Installed) -> None:
    listed = from_wheel.stallbench("list")
    assert "from stallbench" not in listed, "it is the bench itself, and no package with plug-ins"
    assert [line for line in listed.splitlines() if line.split()[:1] == ["longtx"]]
    assert '"name": "longtx"' in from_wheel.stallbench("show", "longtx", "--json")
    assert "nothing is missing" in from_wheel.stallbench("doctor")
    assert "what this command needs is installed" in from_wheel.stallbench("setup")
    from_wheel.stallbench("run", "longtx", *(part for change in SHORT for part in ("--set", change)))
    runs = from_wheel.folder / "reports" / "runs"
    assert (runs / "latest" / "report.html").exists()
    from_wheel.stallbench("report", "latest")


@pytest.mark.long
def test_the_wheel_observes_a_server(from_wheel: Installed, tmp_path: Path) -> None:
    with running_cluster(Database(), tmp_path) as started:
        server = started.cluster.server("primary").direct
        from_wheel.environment[PASSWORD_VARIABLE] = server.password.get_secret_value()
        dsn = f"postgresql://{server.user}@{server.host}:{server.port}/{server.database}"
        assert "read-only as" in from_wheel.stallbench("observe", "--dsn", dsn, "--once")


@pytest.mark.long
def test_the_wheel_s_roles_start_by_hand_from_any_folder(from_wheel: Installed) -> None:
    (from_wheel.folder / "workers").mkdir()
    (from_wheel.folder / "workers" / "__init__.py").write_text("raise RuntimeError('the user has a package of this name, too')")
    for role in ("producers", "workers", "schedulers", "longrunners"):
        assert f"usage: python -P -m stallbench.processes {role}" in from_wheel.run("stallbench.processes", role, "--help")
    assert "EnqueueingUser" in from_wheel.run("stallbench.processes", "locust", "--list")


@pytest.mark.long
def test_the_wheel_s_plugin_and_conformance_suite_judge_a_queue(from_wheel: Installed) -> None:
    from_wheel.stallbench("init")
    from_wheel.run("pytest", "-q", "-p", "no:cacheprovider", "--rootdir=.")
    assert (from_wheel.folder / "reports" / "stallbench").is_dir()
    printed = from_wheel.stallbench("conform", "my_queue.py:MyQueue", "--junit", "conformance.xml")
    assert "pass     nothing lost, at every crash point" in printed
    assert {case.name for suite in JUnitXml.fromfile(str(from_wheel.folder / "conformance.xml")) for case in suite} >= {
        "a claimed job is given to no other worker",
        "nothing repeated, at every crash point",
    }
