"""No command imports from the working directory, which may be a folder that somebody else has filled: a run's, or ``/tmp``."""

from __future__ import annotations

import ast
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from stallbench.processes.role_command import LOCUST, PACKAGES, role_command
from stallbench.python_command import python_command
from stallbench.records.endpoint import Endpoint
from stallbench.run.load import LOCUST_OPTIONS
from tests.end_to_end.conftest import short

PROJECT = Path(__file__).resolve().parents[2]
STALLBENCH = Path(sys.executable).with_name("stallbench")
INSTALLED = "gevent locust numpy pandas psutil psycopg py4j pyarrow pydantic pymysql pyspark redis requests rich stallbench tenacity typer"
SHADOWED = sorted({*sys.stdlib_module_names, *INSTALLED.split(), *PACKAGES})
_COMMAND_S = 280


@pytest.fixture
def trapped(tmp_path: Path) -> Path:
    """A folder with a file for each module that the bench may import; one that is imported says so in the file ``imported``."""
    folder = tmp_path / "trapped"
    folder.mkdir()
    for name in SHADOWED:
        says = f"{name} of {{' '.join(sys.argv)}}"
        (folder / f"{name}.py").write_text(f"import sys\nopen({str(tmp_path / 'imported')!r}, 'a').write(f\"{says}\\n\")\n")
    return folder


def imported(trapped: Path) -> str:
    found = trapped.with_name("imported")
    return found.read_text() if found.exists() else ""


def run_in(trapped: Path, *command: str | Path, text: str = "{}") -> subprocess.CompletedProcess[str]:
    environment = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "PYTHONSAFEPATH")}
    return subprocess.run(
        [str(part) for part in command],
        cwd=trapped,
        env=environment,
        input=text,
        capture_output=True,
        text=True,
        timeout=_COMMAND_S,
        check=False,
    )


def test_the_trap_catches_what_does_import_from_there(trapped: Path) -> None:
    run_in(trapped, sys.executable, "-m", "stallbench.run.sampling")
    assert imported(trapped)


@pytest.mark.parametrize(
    "module",
    [
        "stallbench.run.sampling",
        "stallbench.injection.maintenance",
        "stallbench.pipeline",
        "stallbench.testing.session_server",
    ],
)
def test_a_process_of_the_bench_imports_nothing_from_there(trapped: Path, module: str) -> None:
    run_in(trapped, *python_command(module, "--help"))
    assert not imported(trapped)


@pytest.mark.parametrize("role", PACKAGES)
def test_a_role_is_found_and_imports_nothing_from_there(trapped: Path, role: str) -> None:
    ended = run_in(trapped, *role_command(role, "--help"))
    assert (ended.returncode, imported(trapped)) == (0, ""), ended.stderr


def test_locust_imports_nothing_from_there(trapped: Path) -> None:
    """It puts the working directory first itself. The users of its file connect here, so that everything that they need is imported."""
    endpoint = Endpoint(engine="postgres", host="127.0.0.1", port=1, database="queues", user="me").with_password()
    document: dict[str, object] = {"name": "producer-1", "endpoint": endpoint, "queue": "skip_locked", "events": "events.csv"}
    document |= {"rate": 1, "users": 1, "result": "result.json"}
    ended = run_in(trapped, *role_command(LOCUST, *LOCUST_OPTIONS), text=json.dumps(document))
    assert "cannot continue" in ended.stderr, ended.stderr
    assert not imported(trapped)


@pytest.mark.end_to_end
@pytest.mark.timeout(2 * _COMMAND_S)
def test_a_run_and_its_report_import_nothing_from_there(trapped: Path, tmp_path: Path) -> None:
    """Both start every kind of process: the roles, the collectors, maintenance, the reaper, and Spark with its launcher."""
    maintenance = 'maintenance=[{kind="analyze", on="primary", every="1s"}]'
    run = run_in(trapped, STALLBENCH, "run", "longtx", *short(maintenance), "--runs", tmp_path / "runs")
    assert (run.returncode in (0, 1), imported(trapped)) == (True, ""), run.stdout + run.stderr
    for trap in trapped.iterdir():
        (tmp_path / "runs" / "latest" / trap.name).write_text(trap.read_text())
    report = run_in((tmp_path / "runs" / "latest").resolve(), STALLBENCH, "report", ".")
    assert (report.returncode in (0, 1), imported(trapped)) == (True, ""), report.stdout + report.stderr


def test_every_python_process_is_started_by_the_same_command() -> None:
    """`stallbench.python_command`: one that is started otherwise imports from the working directory."""
    packages = ("stallbench", *PACKAGES)
    files = [path for package in packages for path in (PROJECT / package).rglob("*.py") if path.name != "python_command.py"]
    found = [
        str(path.relative_to(PROJECT))
        for path in files
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.List | ast.Tuple)
        and any(isinstance(each, ast.Constant) and each.value == "-m" for each in node.elts)
    ]
    assert set(found) == {"stallbench/processes/role_command.py"}, "which only says what a user types"
