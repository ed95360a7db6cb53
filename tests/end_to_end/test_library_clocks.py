"""Workers of published libraries whose wall clock is changed."""

from __future__ import annotations

import json

import pytest

from stallbench.libraries import find_libraries, find_library
from stallbench.libraries.installation import find_missing_requirement, require_installed
from stallbench.pipeline.tables import read_table
from tests.end_to_end.conftest import Bench, assert_nothing_is_left, short
from tests.end_to_end.test_libraries import LOAD, SETTINGS

pytestmark = [pytest.mark.end_to_end, pytest.mark.libraries]

LANGUAGES_THAT_ASK_THE_KERNEL = ("go",)
AHEAD = 'phases.longtx.faults=[{kind="clock_skew", on="worker-1", ahead="1h"}]'
CHANGES_OF_CLOCKS = sorted(
    name for name, library in find_libraries().items() if library.language not in LANGUAGES_THAT_ASK_THE_KERNEL
)


@pytest.mark.parametrize("name", CHANGES_OF_CLOCKS)
def test_a_worker_whose_clock_is_an_hour_ahead_goes_on_and_its_events_have_the_bench_s_time(bench: Bench, name: str) -> None:
    library = find_library(name)
    if missing := find_missing_requirement(library):
        pytest.skip(missing)
    require_installed(library, print)
    load = (*LOAD, f"queue.kind=library:{name}", *SETTINGS.get(name, ()), "phases.longtx.longrunners=[]", AHEAD)
    ended = bench.run("run", "longtx", *short(*load))
    assert ended.returncode in (0, 1), ended.stdout + ended.stderr
    (injection,) = bench.record()["injections"]
    assert injection["evidence"]["met"] == ["worker-1"]
    assert injection["active_to_end"] is True
    verdict = json.loads((bench.folder() / "verdict.json").read_text())
    failed = {each["check"] for each in verdict["findings"] if each["result"] in ("fail", "unknown")}
    assert not failed & {"processes", "records", "injections"}, ended.stdout
    latency_ms = read_table(bench.folder(), "jobs")["latency_ms"].dropna()
    assert 0 < latency_ms.min() <= latency_ms.max() < 600_000
    assert_nothing_is_left(bench, bench.record()["bench"]["pid"])
