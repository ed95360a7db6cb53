"""A user's own application: docs/test-my-application.md shows the files that are tested here."""

from __future__ import annotations

from pathlib import Path

import pytest

from stallbench.pipeline.tables import read_table
from tests.end_to_end.conftest import Bench, assert_nothing_is_left, short
from tests.libraries.made_up import make_application

pytestmark = [pytest.mark.end_to_end, pytest.mark.libraries]


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
