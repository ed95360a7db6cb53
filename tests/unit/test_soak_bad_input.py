"""Invalid input for a soak gets one message before anything is started."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import Any

import pytest

from stallbench.commands.soak import soak
from stallbench.errors import BadInputError
from stallbench.run.record import describe_bench
from stallbench.scenario.file import find_scenarios, read_scenario
from stallbench.studies.soak.folder import SoakFolder
from stallbench.studies.soak.plan import read_scenario_again
from stallbench.studies.soak.record import CycleRun, SoakRecord

DEAD = {"version": "0", "pid": os.getpid(), "process_started_s": 1.0}


def ask(runs: Path, scenario: str | None = None, **asked: Any) -> str:
    with pytest.raises(BadInputError) as caught:
        soak(scenario, **asked, runs=runs)
    assert not list(runs.glob("*")) or "continue_" in asked, "a folder was made for nothing"
    return str(caught.value)


def make_soak(runs: Path, **changes: Any) -> Path:
    record = SoakRecord(
        id="soak-1",
        bench=DEAD,
        scenario=read_scenario("baseline"),
        for_s=350,
        keep=3,
        is_external=False,
        runs=(CycleRun(number=1, server_set=1, status="completed", verdict="pass", start_ns=time.time_ns()),),
    ).model_copy(update=changes)
    folder = SoakFolder(runs / "soak-1")
    folder.path.mkdir(parents=True)
    folder.write(record)
    return folder.path


@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        ({}, "soak needs a SCENARIO and how long, like: stallbench soak longtx --for 8h; or --continue SOAK"),
        ({"scenario": "baseline", "for_": "8 hours"}, '--for is "8 hours"; expected a number with us, ms, s, m or h, like "8h"'),
        ({"scenario": "baseline", "for_": "30s"}, "--for is 30s, but one cycle of baseline takes 35s; expected at least 35s"),
        ({"scenario": "basline", "for_": "8h"}, "did you mean"),
        (
            {"scenario": "server-crash", "for_": "8h"},
            "crash ends a server, but a soak measures servers that keep running; leave it out, like --set phases.",
        ),
        (
            {"scenario": "baseline", "for_": "8h", "set_": ["external_processes=true"]},
            "external_processes is true, but external processes cannot be suspended between cycles; leave it out: --set external_processes=false",
        ),
        (
            {"scenario": "locust", "for_": "8h"},
            "producers.kind is locust, which cannot be suspended between cycles",
        ),
        (
            {"scenario": "baseline", "for_": "24h", "keep": 1000, "set_": ["producers.rate=1000000"]},
            "free some space, shorten the soak (--for), keep fewer records (--keep), or choose another folder",
        ),
        ({"continue_": "no-such-soak"}, "--continue no-such-soak: there is no soak of that name in"),
        ({"continue_": "soak-1", "scenario": "baseline"}, "--continue continues a soak as it was begun: leave out SCENARIO"),
    ],
)
def test_invalid_input_gets_one_message(tmp_path: Path, asked: dict[str, Any], expected: str) -> None:
    assert expected in ask(tmp_path / "runs", **asked)


def test_a_soak_that_is_complete_or_running_is_not_continued(tmp_path: Path) -> None:
    make_soak(tmp_path / "over", status="completed")
    assert "is complete; there is nothing to continue" in ask(tmp_path / "over", continue_="soak-1")
    alive = describe_bench()
    make_soak(tmp_path / "alive", bench=alive)
    assert f"is still running, in the process {os.getpid()}" in ask(tmp_path / "alive", continue_="soak-1")


def test_a_soak_is_continued_with_what_it_was_begun_with(tmp_path: Path) -> None:
    make_soak(tmp_path / "changed", scenario=read_scenario("baseline", overrides=["seed=7"]).model_copy(update={"changes": ()}))
    assert "scenarios/baseline.toml: seed changed since the soak began" in ask(tmp_path / "changed", continue_="soak-1")
    older = make_soak(tmp_path / "older", status="completed") / "study.json"
    content = json.loads(older.read_text())
    del content["scenario"]["producers"]["capacity_share"]
    older.write_text(json.dumps(content))
    assert "is complete" in ask(tmp_path / "older", continue_="soak-1"), "a key that is newer than the record is no change"
    make_soak(tmp_path / "external", is_external=True)
    assert "its servers were external: give --dsn and --database again" in ask(tmp_path / "external", continue_="soak-1")


@pytest.mark.parametrize("name", list(find_scenarios()))
def test_no_scenario_is_changed_by_being_recorded(tmp_path: Path, name: str) -> None:
    make_soak(tmp_path, scenario=read_scenario(name))
    assert read_scenario_again(SoakFolder(tmp_path / "soak-1").read().scenario) == read_scenario(name)
