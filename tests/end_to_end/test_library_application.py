"""A user's own application: docs/test-my-application.md shows the files that are tested here."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

import pytest

from stallbench.pipeline.tables import read_table
from tests.documented_blocks import find_block
from tests.end_to_end.conftest import Bench, assert_nothing_is_left, short
from tests.libraries.made_up import make_application

pytestmark = [pytest.mark.end_to_end, pytest.mark.libraries]

COMMANDS = [
    shlex.split(line, comments=True)[1:]
    for line in find_block("docs/test-my-application.md", "sh").splitlines()
    if line.startswith("stallbench run ")
]


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: command[1])
def test_a_run_of_the_page_passes_as_it_is(
    bench: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: list[str]
) -> None:
    make_application(tmp_path)
    monkeypatch.chdir(tmp_path)
    ended = bench.run(*command)
    assert ended.returncode == 0, ended.stdout + ended.stderr


def test_an_application_is_tested_by_its_own_worker(bench: Bench, tmp_path: Path) -> None:
    changes = short("producers.rate=20", "workers.count=2", f"queue.kind=library:{make_application(tmp_path)}")
    ended = bench.run("run", "longtx", *changes)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    conservation = read_table(bench.folder(), "conservation").set_index("state")["jobs"]
    assert conservation["completed"] >= 100
    phases = read_table(bench.folder(), "phases")
    of_longtx = phases[phases["phase"] == "longtx"].set_index(["measure", "statistic"])["value"]
    assert of_longtx["claim_statement_calls", "count"] >= 20
    assert of_longtx["pickup_ms", "p50"] > 0
    assert_nothing_is_left(bench, bench.record()["bench"]["pid"])


def test_the_promises_of_an_application_are_tried_at_every_crash_point(bench: Bench, tmp_path: Path) -> None:
    ended = bench.run("conform", f"library:{make_application(tmp_path)}", "--seed", "1")
    (path,) = bench.runs.glob("*/study.json")
    promises = {each["name"]: each for each in json.loads(path.read_text())["promises"]}
    at_points = {name: each for name, each in promises.items() if name.endswith("at every crash point")}
    assert {each["result"] for each in at_points.values()} <= {"pass", "info"}, ended.stdout + ended.stderr
    assert at_points["nothing repeated, at every crash point"]["reason"].startswith("at 8 points")
    assert ended.returncode == 0, ended.stdout + ended.stderr
