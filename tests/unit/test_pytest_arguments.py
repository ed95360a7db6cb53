"""The arguments of the fixture ``stallbench``: how they become those of the command line, and what is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from stallbench.errors import BadInputError
from stallbench.scenario.toml import format_value
from stallbench.testing.arguments import (
    describe_against,
    describe_changes,
    find_queue_file,
    find_scenario_file,
    name_folder,
)
from stallbench.testing.bench import BenchSession


def test_an_argument_of_another_type_is_bad_input_with_what_is_expected(tmp_path: Path) -> None:
    bench = BenchSession(tmp_path / "reports", tmp_path).bench("test", {}, lambda path: None)
    refused: tuple[tuple[dict[str, Any], str], ...] = (
        ({"scenario": 3}, "scenario is 3; expected a name from stallbench list or a path"),
        ({"queue": 3}, 'queue is 3; expected a text, like "app/queue.py:MyQueue"'),
        ({"variant": ["a"]}, r"variant is \['a'\]; expected the name of a variant"),
        ({"phases": "20s"}, 'phases is \'20s\'; expected a dictionary, like {"longtx": "20s"}'),
        ({"set": "workers.count=8"}, 'expected a dictionary, like {"workers.count": 8}'),
        ({"expect": {"metric": "depth.last"}}, "expected a list of dictionaries"),
        ({"expect": "depth.last"}, "expected a list of dictionaries"),
    )
    for arguments, message in refused:
        with pytest.raises(BadInputError, match=message):
            bench.run(**{"scenario": "longtx", **arguments})
    with pytest.raises(BadInputError, match=r'queue is 3; expected a text, like "app/queue\.py:MyQueue"'):
        bench.conform(3)  # type: ignore[arg-type] # as in a project without type checks
    assert not list(tmp_path.iterdir())


def test_values_are_written_as_toml() -> None:
    expect = [{"metric": "lost.total", "at_most": 0, "because": 'a "lost" job', "phases": ["a", "b"], "x y": True}]
    text = '[{metric = "lost.total", at_most = 0, because = "a \\"lost\\" job", phases = ["a", "b"], "x y" = true}]'
    assert format_value(expect) == text
    assert describe_changes(phases={"long tx": {"rate": 1.5}}, expect=()) == [
        "--set",
        'phases."long tx".rate=1.5',
        "--set",
        "expect=[]",
    ]
    with pytest.raises(BadInputError, match="is a NoneType; expected a text, number, boolean, list or dictionary"):
        format_value({"a": None})


def test_a_baseline_and_tolerances_become_options(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "root").mkdir()
    (tmp_path / "root" / "baseline.json").touch()
    given = describe_against("baseline.json", "30%", tmp_path / "root")
    assert given == ["--against", f"{tmp_path}/root/baseline.json", "--tolerance", "30%"]
    several = describe_against(Path("other.json"), ["30%", "depth.last=5"], tmp_path / "root")
    assert several == ["--against", "other.json", "--tolerance", "30%", "--tolerance", "depth.last=5"]
    assert describe_against(None, None, tmp_path) == []
    with pytest.raises(BadInputError, match=r'tolerance is 0\.3; expected a text like "30%"'):
        describe_against("baseline.json", 0.3, tmp_path)
    with pytest.raises(BadInputError, match="against is 3; expected the path of a baseline file"):
        describe_against(3, None, tmp_path)


def test_a_value_that_toml_does_not_have_is_refused_with_the_key_that_has_it() -> None:
    with pytest.raises(BadInputError, match=r"^workers\.count: None is a NoneType; expected"):
        describe_changes(set={"producers.rate": 5, "workers.count": None})
    with pytest.raises(BadInputError, match=r"^phases\.longtx\.duration: None is a NoneType"):
        describe_changes(phases={"longtx": None})


def test_paths_count_from_the_working_directory_and_then_from_the_root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    here = tmp_path / "here"
    here.mkdir()
    monkeypatch.chdir(here)
    for path in (tmp_path / "root.py", tmp_path / "root.toml", here / "here.py"):
        path.touch()
    assert find_queue_file("here.py:MyQueue", tmp_path) == "here.py:MyQueue"
    assert find_queue_file("root.py:MyQueue", tmp_path) == f"{tmp_path}/root.py:MyQueue"
    assert find_queue_file("nowhere.py:MyQueue", tmp_path) == "nowhere.py:MyQueue"
    assert find_queue_file("library:procrastinate", tmp_path) == "library:procrastinate"
    assert find_queue_file("library:./here", tmp_path) == f"library:{tmp_path}/here"
    assert find_queue_file("skip_locked", tmp_path) == "skip_locked"
    assert find_scenario_file("root.toml", tmp_path) == f"{tmp_path}/root.toml"
    assert find_scenario_file("longtx", tmp_path) == "longtx"


def test_each_run_of_a_test_has_a_folder_of_its_own(tmp_path: Path) -> None:
    folders = [name_folder(tmp_path, "tests/test_q.py::test_a[1-x]").name for _ in range(2)]
    assert folders == ["tests-test_q.py-test_a-1-x", "tests-test_q.py-test_a-1-x-2"]
