"""A comparison of libraries as a user starts it, of runs that are as short as they can be."""

from __future__ import annotations

import json

import pytest

from tests.end_to_end.conftest import Bench, marked_with_folder, measured

pytestmark = [pytest.mark.end_to_end, pytest.mark.libraries]

SHORTER = (
    "phases.baseline.duration=3s",
    "phases.longtx.duration=3s",
    "phases.recovery.duration=1s",
    "phases.recovered.duration=1s",
)
LIBRARIES = ("graphile_worker", "pgqueuer", "river")
"""One for each of three languages; they need no poll to find a job."""


def rates(bench: Bench, folders: list[str]) -> set[float]:
    return {json.loads((bench.runs / folder / "run.json").read_text())["scenario"]["producers"]["rate"] for folder in folders}


@pytest.mark.parametrize("load", ["own", "common"])
def test_libraries_are_compared_beside_a_queue_of_the_bench(bench: Bench, load: str) -> None:
    subjects = ["--variants", "single_statement", "--libraries", ",".join(LIBRARIES), "--load", load]
    ended = bench.run("compare", "longtx", *subjects, "--repeat", "1", *measured(*SHORTER))
    assert ended.returncode in (0, 1), ended.stdout + ended.stderr  # phases of three seconds may miss the intended rate
    assert "Traceback" not in ended.stderr
    (path,) = bench.runs.glob("*-compare-longtx")
    content = json.loads((path / "study.json").read_text())
    assert {run["variant"] for run in content["runs"]} == {"single_statement", *(f"library:{name}" for name in LIBRARIES)}
    assert all(variant["capacity"] > 0 for variant in content["variants"])
    folders = [run["folder"] for run in content["runs"]]
    assert len(rates(bench, folders)) == (len(folders) if load == "own" else 1)
    of_libraries = [run["values"] for run in content["runs"] if run["variant"].startswith("library:")]
    assert all(values["latency_ms.p95 in longtx"] > 0 for values in of_libraries)
    assert (path / "report.html").is_file()
    assert not any(marked_with_folder(bench.runs / folder) for folder in folders)
