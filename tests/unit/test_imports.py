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
sql_literals visible_text
sql_names
errors console python_command shell_command suggestion
storage
waiting discovery injection.record injection.longrunner_issue processes.parent_death
records
measure
measures
engines
setup.components setup.certificates deadlocks
setup.packages
setup.cache
setup.go_toolchain setup.npm setup.python_interpreter setup.steps setup.uv_settings
setup.jars
libraries setup.server_programs setup.postgres_packages setup.volatile_disk_program setup.libfaketime
injection.crash_points
queues
exposition
processes
external.registration
external.role_document
scenario.duration scenario.load_bounds
injection.job_faults
injection.crashes
collectors maintenance
scenario.section scenario.validation.issue
scenario.choices scenario.database scenario.expectation
scenario.sections
scenario.model
injection.worker_clocks
scenario.command
scenario.first_project scenario.locust_bounds scenario.validation.keys_and_values scenario.toml
servers.record
run.folder external.addresses
run.record
run.host_facts exposition.intervals
exposition.run_figures
run.recorder run.upload
servers
external observers.grafana
observers
setup
pipeline
run.load run.sampling run.backlog run.live_figures
injection.context
run.phase_end
faults
injection
regression
verdicts
scenario.chaos
scenario.validation
scenario.overlay
scenario.file
report
run.conclusion run.view run.status
run.run
run.opening
run.capacity
studies
observe
testing
leftovers
commands
cli
"""
"""Lowest first. A module belongs to the longest name here that it begins with; it imports only from its own name and from lower lines."""

LIBRARY_OF_PROCESSES = {
    "stallbench.discovery",
    "stallbench.engines",
    "stallbench.exposition",
    "stallbench.external.role_document",
    "stallbench.injection.crash_points",
    "stallbench.injection.crashes",
    "stallbench.injection.job_faults",
    "stallbench.processes.queue_client",
    "stallbench.processes.reconnection",
    "stallbench.processes.role",
    "stallbench.processes.role_arguments",
    "stallbench.queues",
    "stallbench.records",
    "stallbench.scenario.duration",
    "stallbench.scenario.load_bounds",
    "stallbench.waiting",
}
"""What producers, workers, schedulers and longrunners may use of the library."""

ROOT_PACKAGES = {
    "workers": LIBRARY_OF_PROCESSES,
    "producers": LIBRARY_OF_PROCESSES
    | {
        "stallbench.errors",
        "stallbench.external.addresses",
        "stallbench.external.registration",
        "stallbench.faults",
        "stallbench.scenario.file",
        "stallbench.scenario.locust_bounds",
        "stallbench.scenario.model",
        "stallbench.storage.private",
        "stallbench.storage.atomic_file",
    },
    "schedulers": LIBRARY_OF_PROCESSES,
    "longrunners": LIBRARY_OF_PROCESSES | {"stallbench.injection.longrunner_issue", "stallbench.injection.record"},
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


def layer_of(module: str) -> tuple[int, str] | None:
    """Return the line and the name of a module; none for what is not in ``stallbench``, or ``stallbench`` itself."""
    names = {f"stallbench.{name}": line for line, names in enumerate(LAYERS.split("\n")) for name in names.split()}
    found = max((name for name in names if within(module, {name})), key=len, default=None)
    return None if found is None else (names[found], found)


def test_every_module_has_a_layer() -> None:
    without = {module for module in modules() if layer_of(module) is None}
    assert without == {"stallbench", "stallbench.run", "stallbench.scenario"}, (
        "a package whose modules are in several layers has none"
    )


@pytest.mark.parametrize("module", modules())
def test_a_module_imports_only_from_its_own_and_lower_layers(module: str) -> None:
    own = layer_of(module)
    wrong = []
    for name in sorted(imported_by(modules()[module])):
        other = layer_of(name)
        if own and other and other[1] != own[1] and other[0] >= own[0]:
            wrong.append(name)
    assert not wrong


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


@pytest.mark.parametrize(
    ("imported", "done", "absent"),
    [
        (BEGINNING, "", ("pandas", "scipy", "pyspark")),
        (("stallbench.scenario.file",), READ_LONGTX, ("redis", "cryptography.x509")),
        (("stallbench.run.conclusion",), "", ("scipy", "pyspark")),
        (("stallbench.processes.reaper",), "", ("pydantic",)),
    ],
    ids=[
        "a run begins without what only its report needs",
        "a scenario is read without the libraries for Redis and for certificates",
        "a run is concluded without scipy, unless it measures a trend",
        "the reaper starts without the library for documents",
    ],
)
def test_what_is_slow_to_import_waits_until_it_is_needed(imported: tuple[str, ...], done: str, absent: tuple[str, ...]) -> None:
    """Importing the first three takes longer than all else that happens before the servers start. Each run has a reaper, which only waits."""
    code = f"import sys, {', '.join(imported)}; {done}\nprint([name for name in {absent!r} if name in sys.modules])"
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=PROJECT)
    assert ended.stdout == "[]\n"
