"""Imports point one way, so that a queue can be read on its own and a worker can run on another host without the bench."""

from __future__ import annotations

import ast
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

PROJECT = Path(__file__).resolve().parents[2]

LAYERS = """
base console discovery errors python_command shell_command sql_literals sql_names suggestion visible_text waiting
records measure_definition measures
setup
processes
engines
servers
libraries queues
injection
scenario
run
pipeline
verdicts
report
studies
evidence
observe
testing commands leftovers cli
"""
"""One line a layer, the lowest first: packages, and the modules beside them."""

LIBRARY_OF_PROCESSES = {
    "stallbench.base.duration",
    "stallbench.discovery",
    "stallbench.engines",
    "stallbench.injection.crashes",
    "stallbench.injection.job_faults",
    "stallbench.processes.event_figures",
    "stallbench.processes.exposure",
    "stallbench.processes.role",
    "stallbench.processes.role_arguments",
    "stallbench.queues",
    "stallbench.records",
    "stallbench.waiting",
}
"""What producers, workers, schedulers and longrunners may use of the library."""

ROOT_PACKAGES = {
    "workers": LIBRARY_OF_PROCESSES,
    "producers": LIBRARY_OF_PROCESSES
    | {
        "stallbench.errors",
        "stallbench.servers.addresses",
        "stallbench.injection.faults",
        "stallbench.scenario.file",
        "stallbench.scenario.locust_bounds",
        "stallbench.scenario.model",
        "stallbench.base.storage.private",
        "stallbench.base.storage.atomic_file",
    },
    "schedulers": LIBRARY_OF_PROCESSES,
    "longrunners": LIBRARY_OF_PROCESSES | {"stallbench.scenario.longrunner_issue"},
    "dashboards": {"stallbench.measures"},
}


@cache
def modules() -> dict[str, Path]:
    paths = sorted((PROJECT / "stallbench").rglob("*.py"))
    return {".".join(path.relative_to(PROJECT).with_suffix("").parts).removesuffix(".__init__"): path for path in paths}


@cache
def imported_by(path: Path) -> set[str]:
    """Return the modules of this project that ``path`` imports, each as ``module`` or ``module.name``."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found |= {f"{node.module}.{alias.name}" for alias in node.names}
    return {name for name in found if name.split(".")[0] in {*ROOT_PACKAGES, "stallbench"}}


def within(name: str, rooms: set[str]) -> bool:
    return any(name == room or name.startswith(f"{room}.") for room in rooms)


@cache
def layer_of(module: str) -> int | None:
    """Return the number of a module's layer; none for what is not in ``stallbench``, or ``stallbench`` itself."""
    names = {f"stallbench.{name}": number for number, line in enumerate(LAYERS.strip().split("\n")) for name in line.split()}
    found = max((name for name in names if within(module, {name})), key=len, default=None)
    return None if found is None else names[found]


def test_every_module_has_a_layer() -> None:
    assert [module for module in modules() if layer_of(module) is None] == ["stallbench"]


def test_imports_run_downwards() -> None:
    upwards = {
        (module.removeprefix("stallbench."), name.removeprefix("stallbench."))
        for module, path in modules().items()
        for name in imported_by(path)
        if (layer_of(name) or 0) > (layer_of(module) or 0)
    }
    assert not upwards


@pytest.mark.parametrize("package", ROOT_PACKAGES)
def test_a_process_imports_only_what_it_may(package: str) -> None:
    files = sorted((PROJECT / package).rglob("*.py"))
    assert files, f"{package} contains no code"
    wrong = {
        f"{path.relative_to(PROJECT)} imports {name}"
        for path in files
        for name in imported_by(path)
        if not within(name, ROOT_PACKAGES[package] | {package})
    }
    assert not wrong


def test_the_library_never_imports_what_it_starts() -> None:
    wrong = {
        f"{path.relative_to(PROJECT)} imports {name}"
        for path in modules().values()
        for name in imported_by(path)
        if within(name, set(ROOT_PACKAGES))
    }
    assert not wrong


BEGINNING = ("stallbench.commands.run", "stallbench.run.opening", "stallbench.run.capacity", "stallbench.pipeline.process")
READ_LONGTX = "stallbench.scenario.file.read_scenario('longtx')"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("imported", "done", "absent"),
    [
        (BEGINNING, "", ("pandas", "scipy", "pyspark")),
        (("stallbench.scenario.file",), READ_LONGTX, ("redis", "cryptography.x509")),
        (("stallbench.report.conclusion",), "", ("scipy", "pyspark")),
        (("stallbench.processes.reaper",), "", ("pydantic",)),
        (("stallbench.leftovers",), "", ("pandas", "pyarrow", "jinja2")),
    ],
    ids=[
        "a run begins without what only its report needs",
        "a scenario is read without the libraries for Redis and for certificates",
        "a run is concluded without scipy, unless it measures a trend",
        "the reaper starts without the library for documents",
        "what dead runs left is removed without what reports need",
    ],
)
def test_what_is_slow_to_import_waits_until_it_is_needed(imported: tuple[str, ...], done: str, absent: tuple[str, ...]) -> None:
    """Importing the first three takes longer than all else that happens before the servers start. Each run has a reaper, which only waits."""
    code = f"import sys, {', '.join(imported)}; {done}\nprint([name for name in {absent!r} if name in sys.modules])"
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=PROJECT)
    assert ended.stdout == "[]\n"
