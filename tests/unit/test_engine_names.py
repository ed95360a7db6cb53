"""An engine is a folder: no other code knows it by name, except what is written for it and says so."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from stallbench.engines import ENGINES

PROJECT = Path(__file__).resolve().parents[2]
FOLDERS = {*ENGINES, *(engine.family for engine in ENGINES.values())}
"""In ``stallbench/engines``, and where ``observe`` reads a family."""
WRITTEN_FOR_ENGINES = {
    "dashboards/availability.py": "says which engine has a series",
    "longrunners/feedback.py": "what longrunners on PostgreSQL share",
    "stallbench/queues": "a queue names the engines that it runs on, and has their statements",
    "stallbench/setup": "installs programs before there are packages; PostgreSQL from several sources",
}
ROOTS = ("dashboards", "longrunners", "producers", "schedulers", "stallbench", "workers")


@cache
def find_modules() -> dict[str, ast.Module]:
    paths = sorted(path for root in ROOTS for path in (PROJECT / root).rglob("*.py"))
    found = {str(path.relative_to(PROJECT)): path for path in paths}
    return {name: ast.parse(path.read_text()) for name, path in found.items() if not is_written_for_an_engine(name)}


def is_written_for_an_engine(name: str) -> bool:
    own = [f"stallbench/{place}/{folder}" for place in ("engines", "observe") for folder in FOLDERS]
    return any(name == place or name.startswith(f"{place}/") for place in [*WRITTEN_FOR_ENGINES, *own])


def find_declarations(module: ast.Module) -> list[ast.Assign]:
    """Return where the classes of a module say on which engines they run: those of a fault, a longrunner, a kind of maintenance."""
    classes = [node for node in module.body if isinstance(node, ast.ClassDef)]
    assigned = [node for each in classes for node in each.body if isinstance(node, ast.Assign)]
    return [node for node in assigned if isinstance(node.targets[0], ast.Name) and node.targets[0].id == "engines"]


def find_names(module: ast.Module) -> Iterator[tuple[int, str]]:
    declared = {id(inner) for node in find_declarations(module) for inner in ast.walk(node)}
    for node in ast.walk(module):
        if isinstance(node, ast.Constant) and node.value in FOLDERS and id(node) not in declared:
            yield node.lineno, str(node.value)


def find_imports(module: ast.Module) -> Iterator[tuple[int, str]]:
    for node in ast.walk(module):
        if isinstance(node, ast.ImportFrom) and node.module and is_in_a_folder(node.module):
            yield node.lineno, node.module


def is_in_a_folder(module: str) -> bool:
    parts = module.split(".")
    return parts[:2] == ["stallbench", "engines"] and len(parts) > 2 and parts[2] in FOLDERS


@pytest.mark.parametrize("name", WRITTEN_FOR_ENGINES)
def test_what_may_name_engines_is_there(name: str) -> None:
    assert (PROJECT / name).exists()


def test_no_other_code_names_an_engine() -> None:
    assert [f"{name}:{line}: {text}" for name, module in find_modules().items() for line, text in find_names(module)] == []


def test_who_imports_what_is_in_an_engine_s_folder_says_on_which_engines_it_runs() -> None:
    undeclared = {name: module for name, module in find_modules().items() if not find_declarations(module)}
    assert [f"{name}:{line}: {text}" for name, module in undeclared.items() for line, text in find_imports(module)] == []
