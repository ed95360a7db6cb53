"""The wheel contains everything that the bench reads when it runs, below one package."""

from __future__ import annotations

import ast
import configparser
import sys
import zipfile
from collections.abc import Iterator
from email.parser import Parser
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from stallbench import PROJECT
from stallbench.processes.role_command import PACKAGES
from tests.requirements import list_installed
from tests.wheel import build_wheel

pytestmark = pytest.mark.slow

PARTS = ("dashboards", "examples", "libraries", "reports/templates", "requirements", "scenarios", *PACKAGES)

IN_OTHER_ENVIRONMENTS = ("stallbench/bundled/libraries/", "stallbench/bundled/examples/")
ONLY_WITH_AN_EXTRA = {"aerospike", "aerospike_helpers", "anyio", "mcp"}


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> zipfile.ZipFile:
    return zipfile.ZipFile(build_wheel(tmp_path_factory.mktemp("wheel")))


@pytest.fixture(scope="module")
def names(wheel: zipfile.ZipFile) -> set[str]:
    return set(wheel.namelist())


def files_in(folder: str) -> set[str]:
    paths = (PROJECT / folder).rglob("*")
    return {str(path.relative_to(PROJECT)) for path in paths if path.is_file() and "__pycache__" not in path.parts}


def test_nothing_but_the_package_is_at_the_top_of_site_packages(wheel: zipfile.ZipFile, names: set[str]) -> None:
    assert {name.partition("/")[0] for name in names if ".dist-info/" not in name} == {"stallbench"}
    (top_level,) = [name for name in names if name.endswith("/top_level.txt")]
    assert wheel.read(top_level).split() == [b"stallbench"]


@pytest.mark.parametrize("folder", PARTS)
def test_each_folder_that_the_bench_reads_is_there(folder: str, names: set[str]) -> None:
    expected = files_in(folder)
    assert expected
    assert {f"stallbench/bundled/{path}" for path in expected} <= names


def test_every_file_of_the_package_is_there(names: set[str]) -> None:
    assert not files_in("stallbench") - names


def test_no_run_and_no_file_of_an_earlier_build_is_there(names: set[str]) -> None:
    assert not [name for name in names if "/runs/" in name or name.endswith(("stale.py", ".pyc"))]
    assert not [name for name in names if name.startswith("stallbench/bundled/tests/")]


def test_the_command_and_the_pytest_plugin_are_entry_points(wheel: zipfile.ZipFile, names: set[str]) -> None:
    (path,) = [name for name in names if name.endswith("/entry_points.txt")]
    entry_points = configparser.ConfigParser()
    entry_points.read_string(wheel.read(path).decode())
    assert entry_points["console_scripts"]["stallbench"] == "stallbench.cli:main"
    assert entry_points["pytest11"]["stallbench"] == "stallbench.testing.plugin"
    assert f"{Path(*entry_points['pytest11']['stallbench'].split('.'))}.py" in names


def test_every_package_that_the_bench_imports_is_required_by_its_metadata(wheel: zipfile.ZipFile, names: set[str]) -> None:
    """Directly, or by a package that is: an environment that pip fills for ``stallbench[bench]`` has them all."""
    (path,) = [name for name in names if name.endswith(".dist-info/METADATA")]
    declared = Parser().parsestr(wheel.read(path).decode()).get_all("Requires-Dist", [])
    required = list_installed([Requirement(each) for each in declared], extra="bench")
    provided_by = packages_distributions()
    files = [name for name in names if name.endswith(".py") and not name.startswith(IN_OTHER_ENVIRONMENTS)]
    imported = {module for name in files for module in modules_imported_in(wheel.read(name).decode())}
    assert {"psycopg", "pyspark"} <= imported
    own = {"stallbench", "dashboards", *PACKAGES}
    for module in sorted(imported - own - set(sys.stdlib_module_names) - ONLY_WITH_AN_EXTRA):
        assert {canonicalize_name(each) for each in provided_by[module]} & required, (
            f"{module} is in no package that the wheel requires"
        )


def modules_imported_in(text: str) -> Iterator[str]:
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            yield from (alias.name.partition(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield node.module.partition(".")[0]
