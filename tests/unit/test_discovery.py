"""Plug-ins are found in the tree and in installed packages, by one mechanism for every kind."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from stallbench.discovery import PluginGroup, discover
from stallbench.engines.collectors import Collector
from stallbench.errors import BadInputError
from stallbench.injection.faults import find_faults
from stallbench.injection.maintenance import find_maintenance_kinds
from stallbench.queues import find_queues
from stallbench.run.sampling import collectors_for, find_collectors
from stallbench.verdicts import find_checks
from stallbench.waiting import wait_until

PLUGIN = """
from stallbench.engines.collectors import Collector


class MoonPhase(Collector):
    name = "moon_phase"

    def sample(self):
        return []

    def close(self):
        pass
"""


def install(folder: Path, value: str, monkeypatch: pytest.MonkeyPatch, group: str = "stallbench.collectors") -> None:
    """Put a distribution with one module and one entry point where Python finds it."""
    (folder / "moon.py").write_text(PLUGIN)
    info = folder / "moon-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: moon\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(f"[{group}]\nmoon = {value}\n")
    monkeypatch.syspath_prepend(folder)
    monkeypatch.delitem(sys.modules, "moon", raising=False)
    find_collectors.cache_clear()
    collectors_for.cache_clear()


@pytest.fixture(autouse=True)
def _forget() -> object:
    yield
    find_collectors.cache_clear()
    collectors_for.cache_clear()


def test_every_kind_has_plugins_in_the_tree() -> None:
    kinds = (find_queues, find_faults, find_collectors, find_checks, find_maintenance_kinds)
    assert all(find() for find in kinds)
    assert len(PluginGroup) == len(kinds) + 1  # longrunners: the library does not import what it starts


def test_a_plugin_of_an_installed_package_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install(tmp_path, "moon:MoonPhase", monkeypatch)
    assert find_collectors()["moon_phase"].__module__ == "moon"


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("moon:Nothing", "cannot be loaded: AttributeError"),
        ("no_such_module:MoonPhase", "cannot be loaded: ModuleNotFoundError"),
        ("moon:PLUGIN", "cannot be loaded: AttributeError"),
        ("pathlib:Path", "is not a concrete subclass of stallbench.engines.collectors.collector.Collector"),
    ],
)
def test_a_broken_entry_point_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, value: str, message: str) -> None:
    install(tmp_path, value, monkeypatch)
    with pytest.raises(BadInputError) as raised:
        discover(sys.modules["stallbench.engines.collectors"], Collector, PluginGroup.COLLECTORS)
    assert str(raised.value).startswith(f"entry point moon = '{value}' of group stallbench.collectors {message}")


def test_waiting_returns_the_first_true_result() -> None:
    answers = iter([0, 0, 7])
    assert wait_until(lambda: next(answers), within_s=60, every_s=0) == 7


def test_waiting_checks_at_least_once_and_then_gives_up() -> None:
    asked: list[bool] = []
    assert wait_until(lambda: asked.append(True), within_s=0) is None
    assert asked
