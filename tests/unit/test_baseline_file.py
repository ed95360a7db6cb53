"""The baseline file: what it has, what it is made of, and that a damaged one is refused."""

from __future__ import annotations

import json
import socket
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from stallbench import PROJECT
from stallbench.cli import app
from stallbench.commands.options import find_against
from stallbench.errors import BadInputError
from stallbench.scenario.file import read_scenario
from stallbench.studies.baseline_collection import collect_baseline, find_baseline
from stallbench.studies.comparison.plan import Load, make_plan
from stallbench.verdicts.baseline.baseline_file import Kind, read_baseline_file, write_baseline
from stallbench.verdicts.baseline.comparability import find_conditions, require_comparable, shorten_kind, with_load_of
from stallbench.verdicts.baseline.tolerance import read_tolerance
from tests.unit.made_up_baseline import EXPECT, LATENCY, RATE, RATIO, make_baseline, make_made_up_run
from tests.unit.made_up_run import make_record


def test_it_has_a_value_for_each_run_in_the_order_of_their_names(tmp_path: Path) -> None:
    baseline = make_baseline(tmp_path, [10.0, None, 12.0])
    variant = baseline.variants["control"]
    assert variant.runs == ("20290101T000000Z-longtx", "20290102T000000Z-longtx", "20290103T000000Z-longtx")
    assert variant.metrics[LATENCY].values == (10.0, None, 12.0)
    assert variant.metrics[RATE].better == "higher"
    assert variant.metrics.keys() == {LATENCY, RATE, RATIO}
    assert write_baseline(collect_baseline(list(reversed(variant.runs)), tmp_path)) == write_baseline(baseline)


def test_it_is_read_as_it_was_written(tmp_path: Path) -> None:
    baseline = make_baseline(tmp_path, [10.0, 11.123456789])
    path = tmp_path / "baseline.json"
    path.write_text(write_baseline(baseline))
    assert read_baseline_file(path) == baseline
    content = json.loads(path.read_text())
    assert list(content) == sorted(content)
    assert content["variants"]["control"]["metrics"][LATENCY]["values"] == [10.0, 11.1235]
    assert len(path.read_text()) < 10_000


@pytest.mark.parametrize("place", [".", "/", "missing/baseline.json"])
def test_a_place_where_no_file_can_be_written_is_refused(place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    make_made_up_run(tmp_path / "runs" / "20300101T000000Z-longtx")
    ended = CliRunner().invoke(app, ["baseline", "20300101T000000Z-longtx", "--runs", "runs", "--output", place])
    assert isinstance(ended.exception, BadInputError)
    assert str(ended.exception) == f"--output {place}: no file can be written there; expected a path in an existing folder"


def test_it_has_no_path_and_no_name_of_a_host(tmp_path: Path) -> None:
    text = write_baseline(make_baseline(tmp_path, [10.0], overrides=['queue={kind="stallbench/queues/que.py:Que"}']))
    assert str(tmp_path) not in text
    assert str(PROJECT) not in text
    assert "boot" not in text
    assert socket.gethostname() not in text
    assert json.loads(text)["variants"]["control"]["conditions"]["queue.kind"] == "que.py:Que"


@pytest.mark.parametrize(
    ("kind", "short"), [("que", "que"), ("/a/b.py:C", "b.py:C"), ("library:river", "library:river"), ("library:a/b", "library:b")]
)
def test_the_folder_of_a_queue_is_left_out(kind: str, short: str) -> None:
    assert shorten_kind(kind) == short


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (lambda content: content.pop("machine"), "machine: Field required"),
        (lambda content: content.update(format=2), "format 2 was written by a newer stallbench"),
        (lambda content: content.pop("format") and content.update(variants={}), "variants: "),
        (lambda content: content["variants"]["control"].update(runs=["a", "b"]), "has 1 values for 2 runs"),
        (lambda content: content["variants"]["control"]["metrics"][LATENCY].update(values=["fast"]), "unable to parse"),
        (lambda content: content["variants"]["control"]["metrics"][LATENCY].update(better="faster"), "'higher' or 'lower'"),
    ],
    ids=["no machine", "newer format", "no variants", "a value short", "no number", "no direction"],
)
def test_a_damaged_file_is_refused_with_its_path(tmp_path: Path, change: Any, told: str) -> None:
    content = json.loads(write_baseline(make_baseline(tmp_path, [10.0])))
    change(content)
    path = tmp_path / "baseline.json"
    path.write_text(json.dumps(content))
    with pytest.raises(BadInputError) as refused:
        read_baseline_file(path)
    assert str(refused.value).startswith(str(path))
    assert told in str(refused.value)


@pytest.mark.parametrize("text", ["", "{", "[]", "null", '{"format": 1}', "\x00", "[" * 100_000, "1" * 5_000])
def test_what_is_no_baseline_is_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "baseline.json"
    path.write_text(text)
    with pytest.raises(BadInputError, match=r"not a baseline: .*; write one with: stallbench baseline RUN --output FILE"):
        read_baseline_file(path)


def test_a_file_that_cannot_be_read_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadInputError, match="cannot be read"):
        read_baseline_file(tmp_path / "none.json")
    (tmp_path / "binary.json").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(BadInputError, match="not a baseline"):
        read_baseline_file(tmp_path / "binary.json")
    with pytest.raises(BadInputError, match="no such file, run, comparison, search or soak"):
        find_baseline(str(tmp_path / "none.json"), tmp_path)
    with pytest.raises(BadInputError, match="--against: the name is empty"):
        find_baseline("", tmp_path)


def test_runs_are_added_to_a_file(tmp_path: Path) -> None:
    path = tmp_path / "baseline.json"
    path.write_text(write_baseline(make_baseline(tmp_path, [10.0])))
    make_made_up_run(tmp_path / "20290105T000000Z-longtx", latency=11.0)
    added = collect_baseline([str(path), "20290105T000000Z-longtx"], tmp_path)
    assert added.variants["control"].metrics[LATENCY].values == (10.0, 11.0)
    with pytest.raises(BadInputError, match="named twice"):
        collect_baseline(["20290105T000000Z-longtx", "20290105T000000Z-longtx"], tmp_path)


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"overrides": ["workers.count=9"]}, "workers.count is 9, before 4"),
        ({"version": "16.6"}, "ran on postgres 16.6, the runs before it on postgres 16.4"),
        ({"host": make_record()["host"] | {"cpus": 4}}, "ran on 4 CPUs, and .* on 2"),
        ({"status": "aborted"}, "cannot be a baseline: its status is aborted; expected completed"),
    ],
    ids=str,
)
def test_runs_that_differ_make_no_baseline(tmp_path: Path, changes: dict[str, Any], told: str) -> None:
    make_made_up_run(tmp_path / "one")
    make_made_up_run(tmp_path / "other", **changes)
    with pytest.raises(BadInputError, match=told):
        collect_baseline(["one", "other"], tmp_path)


def test_variants_are_beside_each_other(tmp_path: Path) -> None:
    make_made_up_run(tmp_path / "one")
    make_made_up_run(tmp_path / "other", variant="skip_locked", latency=3.0)
    variants = collect_baseline(["one", "other"], tmp_path).variants
    assert {name: variant.metrics[LATENCY].values for name, variant in variants.items()} == {
        "control": (10.0,),
        "skip_locked": (3.0,),
    }


def test_conditions_have_the_load_and_not_the_seed_or_the_expectations() -> None:
    conditions = find_conditions(read_scenario("longtx", overrides=["producers.rate=100"]))
    assert conditions["producers.rate"] == 100
    assert conditions["phases"] == "warmup, baseline, longtx, recovery, recovered"
    assert conditions["phases.longtx.longrunners.0.kind"] == "idle_writer"
    same = find_conditions(read_scenario("longtx", overrides=["producers.rate=100", "seed=7", EXPECT, "database.port=5555"]))
    assert same == conditions


def test_what_cannot_be_compared_is_refused_before_the_run(tmp_path: Path) -> None:
    baseline = make_baseline(tmp_path, [10.0])
    alike = read_scenario("longtx", overrides=["producers.rate=100"])
    require_comparable(baseline, {"control": alike, "skip_locked": read_scenario("longtx", variant="skip_locked")})
    with pytest.raises(BadInputError, match="the baseline is of the scenario longtx, and this is retention"):
        require_comparable(baseline, {"control": read_scenario("retention")})
    with pytest.raises(BadInputError, match="the baseline is of control, and this is skip_locked"):
        require_comparable(baseline, {"skip_locked": alike})
    with pytest.raises(BadInputError, match=r"producers\.rate is 50, in the baseline 100"):
        require_comparable(baseline, {"control": read_scenario("longtx", overrides=["producers.rate=50"])})


def test_a_share_of_the_capacity_becomes_the_rate_of_the_baseline(tmp_path: Path) -> None:
    share = read_scenario("longtx")
    assert share.producers.wants_rate
    rated = share.with_capacity(333.3)
    overrides = [change for change in rated.changes if change.startswith(("producers", "phases"))]
    baseline = make_baseline(tmp_path, [10.0], overrides=["producers.capacity_share=0.5", *overrides])
    given = with_load_of(baseline, "control", share)
    assert given.producers.rate == rated.producers.rate
    require_comparable(baseline, {"control": given})
    fixed = read_scenario("longtx", overrides=["producers.rate=50"])
    assert with_load_of(baseline, "control", fixed) is fixed


@pytest.mark.parametrize("load", ["common", "own"])
def test_a_comparison_gets_the_rate_of_the_baseline_in_all_variants_that_have_a_share(tmp_path: Path, load: Load) -> None:
    plan = make_plan("longtx", variants="control,skip_locked", rounds=3, seed=None)
    plan = replace(plan, load=load)
    assert plan.chosen["control"].producers.wants_rate
    rated = plan.chosen["control"].with_capacity(333.3)
    changes = [change for change in rated.changes if change.startswith(("producers", "phases"))]
    given = plan.with_load_of(make_baseline(tmp_path, [10.0], overrides=changes))
    assert given.chosen["control"].producers.rate == rated.producers.rate
    assert given.capacities == {}, "none was measured"
    if load == "common":
        assert given.chosen["skip_locked"].producers.rate == rated.producers.rate
    else:
        assert given.chosen["skip_locked"].producers.wants_rate, "the baseline does not have its load"


@pytest.mark.parametrize(
    "option", ["", "x", "20", "-5%", "nan%", "inf%", "latency_ms.p95=", "latency_ms.p95=x", "latency_ms.p59=5%", "=5%"]
)
def test_a_bad_tolerance_is_refused(option: str) -> None:
    with pytest.raises(BadInputError, match="--tolerance"):
        read_tolerance([option])


def test_an_unknown_metric_of_a_tolerance_is_refused_with_what_is_allowed() -> None:
    with pytest.raises(
        BadInputError, match=r"expected a metric of docs/measures\.md, like latency_ms\.p95, or sustained_rate or drift"
    ):
        read_tolerance(["nothing_alike=5%"])


@pytest.mark.parametrize(
    ("kind", "option", "allowed"),
    [
        ("limit", "latency_ms.p95=50%", "of a limit only sustained_rate"),
        ("limit", "drift=10%", "of a limit only sustained_rate"),
        ("run", "sustained_rate=30%", "of runs only metrics like latency_ms.p95"),
        ("soak", "sustained_rate=30%", "of soaks only drift and metrics like table_bytes.last"),
    ],
)
def test_a_tolerance_of_what_is_not_compared_is_refused(kind: Kind, option: str, allowed: str, tmp_path: Path) -> None:
    path = tmp_path / "baseline.json"
    path.write_text(write_baseline(make_baseline(tmp_path / "runs", [10.0]).model_copy(update={"kind": kind})))
    with pytest.raises(BadInputError, match=f"--tolerance {option.partition('=')[0]}=.*: .*{allowed}"):
        find_against(str(path), ["20%", option], tmp_path)


def test_a_later_tolerance_replaces_an_earlier_one() -> None:
    tolerance = read_tolerance(["10%", "30 %", "latency_ms.p95=5", "latency_ms.p95=50%"])
    assert tolerance.default.of(-10) == 3
    assert tolerance.for_metric("latency_ms.p95").of(10) == 5
    assert read_tolerance([]).default.of(10) == 2


def test_bad_input_ends_the_command_before_anything_starts(tmp_path: Path) -> None:
    def refuse(*arguments: str) -> str:
        result = CliRunner().invoke(app, ["run", "longtx", "--set", "producers.rate=50", *arguments, "--runs", str(tmp_path)])
        assert isinstance(result.exception, BadInputError)
        return str(result.exception)

    path = tmp_path / "baseline.json"
    path.write_text("{")
    assert "not a baseline" in refuse("--against", str(path))
    path.write_text(write_baseline(make_baseline(tmp_path / "earlier", [10.0])))
    assert "producers.rate is 50, in the baseline 100" in refuse("--against", str(path))
    assert "there is no metric" in refuse("--against", str(path), "--tolerance", "latency=5%")
    assert "add --against BASELINE" in refuse("--tolerance", "5%")
    assert {each.name for each in tmp_path.iterdir()} == {"baseline.json", "earlier"}
