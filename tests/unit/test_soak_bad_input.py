"""Invalid input for a soak gets one message before anything is started."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import Any

import pytest

from stallbench.errors import BadInputError
from stallbench.run.record import describe_bench
from stallbench.scenario.file import find_scenarios, read_scenario
from stallbench.studies.soak.command import begin_or_resume
from stallbench.studies.soak.folder import SoakFolder
from stallbench.studies.soak.plan import read_scenario_again
from stallbench.studies.soak.record import CycleRecord, SoakRecord

DEAD = {"version": "0", "pid": os.getpid(), "process_started_s": 1.0}


def ask(runs: Path, scenario: str | None = None, **changes: Any) -> str:
    asked: dict[str, Any] = {
        "for_": None,
        "resume_": None,
        "variant": None,
        "overrides": [],
        "keep": 3,
        "dsn": [],
        "database": None,
        "toxiproxy": None,
        "may_change_servers": False,
        "runs": runs,
    }
    with pytest.raises(BadInputError) as caught:
        begin_or_resume(scenario, **{**asked, **changes})
    assert not list(runs.glob("*")) or "resume_" in changes, "a folder was made for nothing"
    return str(caught.value)


def make_soak(runs: Path, **changes: Any) -> Path:
    record = SoakRecord(
        id="soak-1",
        bench=DEAD,
        scenario=read_scenario("baseline"),
        for_s=350,
        keep=3,
        is_external=False,
        cycles=(CycleRecord(number=1, server_set=1, status="completed", verdict="pass", start_ns=time.time_ns()),),
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
            {"scenario": "baseline", "for_": "8h", "overrides": ["external_processes=true"]},
            "external_processes is true, but external processes cannot be suspended between cycles; leave it out: --set external_processes=false",
        ),
        (
            {"scenario": "locust", "for_": "8h"},
            "producers.kind is locust, which cannot be suspended between cycles",
        ),
        (
            {"scenario": "baseline", "for_": "24h", "keep": 1000, "overrides": ["producers.rate=1000000"]},
            "free some space, shorten the soak (--for), keep fewer records (--keep), or choose another folder",
        ),
        ({"resume_": "no-such-soak"}, "--continue no-such-soak: no such soak; there is none below"),
        ({"resume_": "soak-1", "scenario": "baseline"}, "leave out SCENARIO, --for, --variant, --set and --against"),
    ],
)
def test_invalid_input_gets_one_message(tmp_path: Path, asked: dict[str, Any], expected: str) -> None:
    assert expected in ask(tmp_path / "runs", **asked)


def test_a_folder_that_is_no_soak_is_refused_with_the_names_of_those_that_are(tmp_path: Path) -> None:
    (tmp_path / "a-run").mkdir()
    make_soak(tmp_path)
    message = ask(tmp_path, resume_="a-run")
    assert message == "--continue a-run: is not a soak's folder: it has no soak.json; there are soak-1"


def test_a_record_that_is_invalid_is_refused(tmp_path: Path) -> None:
    (make_soak(tmp_path) / "soak.json").write_text('{"format": "two"}')
    assert "soak.json: not a soak's record: format" in ask(tmp_path, resume_="soak-1")


@pytest.mark.parametrize(("format_", "age"), [(1, "an older"), (3, "a newer")])
def test_a_record_in_another_format_is_refused_with_what_to_do(tmp_path: Path, format_: int, age: str) -> None:
    (make_soak(tmp_path) / "soak.json").write_text(f'{{"format": {format_}}}')
    assert ask(tmp_path, resume_="soak-1").endswith(
        f"soak.json: format {format_} was written by {age} stallbench; this version reads format 2; "
        "run the soak again, or read it with the version that wrote it"
    )


def test_a_soak_that_is_complete_or_running_is_not_resumed(tmp_path: Path) -> None:
    make_soak(tmp_path / "over", status="completed")
    assert "is complete; there is nothing to resume" in ask(tmp_path / "over", resume_="soak-1")
    alive = describe_bench()
    make_soak(tmp_path / "alive", bench=alive)
    assert f"is running in process {os.getpid()}" in ask(tmp_path / "alive", resume_="soak-1")


def test_a_soak_is_resumed_with_what_it_was_begun_with(tmp_path: Path) -> None:
    make_soak(tmp_path / "changed", scenario=read_scenario("baseline", overrides=["seed=7"]).model_copy(update={"changes": ()}))
    assert "scenarios/baseline.toml: seed changed since the soak began" in ask(tmp_path / "changed", resume_="soak-1")
    older = make_soak(tmp_path / "older", status="completed") / "soak.json"
    content = json.loads(older.read_text())
    del content["scenario"]["producers"]["capacity_share"]
    older.write_text(json.dumps(content))
    assert "is complete" in ask(tmp_path / "older", resume_="soak-1"), "a key that is newer than the record is no change"
    make_soak(tmp_path / "external", is_external=True)
    assert "its servers were external: give --dsn and --database again" in ask(tmp_path / "external", resume_="soak-1")


@pytest.mark.parametrize("name", list(find_scenarios()))
def test_no_scenario_is_changed_by_being_recorded(tmp_path: Path, name: str) -> None:
    make_soak(tmp_path, scenario=read_scenario(name))
    assert read_scenario_again(SoakFolder(tmp_path / "soak-1").read().scenario) == read_scenario(name)
