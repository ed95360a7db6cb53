"""What needs no bench starts without it: neither the libraries that are slow to import, nor any that only the extra ``bench`` installs."""

from __future__ import annotations

import subprocess
import sys
import tomllib

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from stallbench import PROJECT
from tests.requirements import list_installed

pytestmark = pytest.mark.slow

HEAVY = {"locust", "numpy", "pandas", "psutil", "pyarrow", "pyspark", "pytest", "redis", "requests", "scipy"}
OBSERVE = """
import stallbench.observe.command, stallbench.observe.options
import stallbench.observe.postgres.observer, stallbench.observe.innodb.observer
"""
COMMAND = "import sys; sys.argv[1:] = {!r}; from stallbench.cli import app; app(standalone_mode=False)"
LIGHT = {
    "list": COMMAND.format(["list", "vacuum"]),
    "show": COMMAND.format(["show", "longtx"]),
    "show a scenario with faults, maintenance and every queue": COMMAND.format(["show", "worker-crash"])
    + "\nfrom stallbench.queues import find_queues; find_queues()"
    + "\nfrom stallbench.injection.maintenance import find_maintenance_kinds; find_maintenance_kinds()",
    "observe": OBSERVE,
    "the check of longrunners": "from longrunners import find_longrunners, validation; find_longrunners()",
}
OPTIONAL = {"cryptography", "cffi"}
"""PyMySQL uses it where it is installed."""


@pytest.fixture(scope="module")
def light() -> set[str]:
    """All that ``pip install stallbench`` installs."""
    project = tomllib.loads((PROJECT / "pyproject.toml").read_text())["project"]
    return list_installed(Requirement(each) for each in project["dependencies"])


@pytest.mark.parametrize("code", LIGHT.values(), ids=LIGHT)
def test_a_light_command_imports_only_what_the_light_installation_has(code: str, light: set[str]) -> None:
    shown = (
        f"{code}\nimport sys, importlib.metadata as m\nof = m.packages_distributions()\n"
        "print(chr(10) + 'imported:', *{each for name in sys.modules for each in of.get(name.partition('.')[0], ())})"
    )
    ended = subprocess.run([sys.executable, "-c", shown], capture_output=True, text=True, check=True, cwd=PROJECT)
    *_, last = ended.stdout.splitlines()
    imported = {canonicalize_name(name) for name in last.removeprefix("imported: ").split()}
    assert "pydantic" in imported or "typer" in imported
    assert not imported & HEAVY
    # Python's own set-up of an editable installation imports setuptools.
    assert imported <= light | OPTIONAL | {"stallbench", "setuptools"}


def test_the_light_installation_is_small(light: set[str]) -> None:
    assert len(light) <= 15
    assert not light & HEAVY
