"""The wheel contains everything that the bench reads when it runs, below one package."""

from __future__ import annotations

import configparser
import zipfile
from pathlib import Path

import pytest

from stallbench import PROJECT
from stallbench.processes.role_command import PACKAGES
from tests.wheel import build_wheel

PARTS = ("dashboards", "examples", "libraries", "reports/templates", "requirements", "scenarios", *PACKAGES)


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
