"""The dashboards in JSON are those of the code, fit Grafana's schema, and hang together."""

from __future__ import annotations

import enum
import json
import re
import types
import typing
from pathlib import Path
from typing import Any

import pytest
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.cog.plugins import register_default_plugins
from grafana_foundation_sdk.models import dashboard as model

import dashboards
from dashboards.board import as_json
from stallbench.run.observers.dashboards import read_dashboards

FOLDER = Path(dashboards.__file__).parent
OF_THE_DATA_SOURCE = {"step", "titleFormat", "textFormat", "expr", "refId", "interval"}
"""What an annotation query has for Prometheus; the schema leaves it open."""
BUILT_IN = {"__rate_interval", "__range", "__url_time_range"}


@pytest.fixture(params=dashboards.DASHBOARDS)
def board(request: pytest.FixtureRequest) -> dict[str, Any]:
    content: dict[str, Any] = json.loads((FOLDER / f"{request.param}.json").read_text())
    return content


def panels(board: dict[str, Any]) -> list[dict[str, Any]]:
    return [panel for panel in board["panels"] if panel["type"] != "row"]


@pytest.mark.parametrize("name", dashboards.DASHBOARDS)
def test_the_json_is_what_the_code_makes(name: str) -> None:
    written = (FOLDER / f"{name}.json").read_text()
    assert written == as_json(dashboards.DASHBOARDS[name]()), "run: python -m dashboards"


def test_what_is_pushed_is_what_there_is() -> None:
    assert {board["uid"] for board in read_dashboards()} == {make().uid for make in dashboards.DASHBOARDS.values()}


def test_every_key_is_known_to_the_schema_and_no_value_changes_by_it(board: dict[str, Any]) -> None:
    register_default_plugins()
    read = model.Dashboard.from_json(board)
    for annotation in board["annotations"]["list"]:
        for part in (annotation, annotation.get("target", {})):
            for key in OF_THE_DATA_SOURCE & set(part):
                if part is not annotation or key != "expr":
                    del part[key]
    assert json.loads(json.dumps(read, cls=JSONEncoder)) == board


def test_every_value_has_the_type_that_the_schema_says(board: dict[str, Any]) -> None:
    register_default_plugins()
    assert not list(wrong_types(model.Dashboard.from_json(board), model.Dashboard, "board"))


def wrong_types(value: Any, hint: Any, where: str) -> typing.Iterator[str]:
    """Yield where ``value``, or something in it, is not what the toolkit's models, made from Grafana's schema, say."""
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if hint in (Any, object):
        if type(value).__module__.startswith("grafana_foundation_sdk"):
            yield from wrong_types(value, type(value), where)
    elif origin in (typing.Union, types.UnionType):
        found = [list(wrong_types(value, one, where)) for one in arguments]
        if all(found):
            # The longest path is that of the alternative that was meant.
            yield from max(found, key=lambda wrong: len(wrong[0].partition(": ")[0]))
    elif origin is list:
        if not isinstance(value, list):
            yield f"{where}: {value!r} is no list"
            return
        for index, one in enumerate(value):
            yield from wrong_types(one, arguments[0], f"{where}[{index}]")
    elif origin is dict:
        if not isinstance(value, dict):
            yield f"{where}: {value!r} is no object"
            return
        for key, one in value.items():
            yield from wrong_types(one, arguments[1], f"{where}.{key}")
    elif origin is typing.Literal:
        if value not in arguments:
            yield f"{where}: {value!r} is none of {arguments}"
    elif isinstance(hint, type) and issubclass(hint, enum.Enum):
        if value not in [one.value for one in hint]:
            yield f"{where}: {value!r} is none of {list(hint)}"
    elif hint is float:
        if not isinstance(value, int | float) or isinstance(value, bool):
            yield f"{where}: {value!r} is no number"
    elif isinstance(value, dict) and hasattr(hint, "from_json"):
        # The toolkit leaves some as they are.
        read = hint.from_json(value)
        if json.loads(json.dumps(read, cls=JSONEncoder)) != value:
            yield f"{where}: {value} is no {hint.__name__}"
        yield from wrong_types(read, hint, where)
    elif isinstance(hint, type):
        if not isinstance(value, hint) or (hint is int and isinstance(value, bool)):
            yield f"{where}: is a {type(value).__name__}, no {hint.__name__}"
        elif hint.__module__.startswith("grafana_foundation_sdk"):
            for name, of_field in typing.get_type_hints(type(value)).items():
                yield from wrong_types(getattr(value, name), of_field, f"{where}.{name}")


def test_the_check_of_types_finds_a_wrong_one(board: dict[str, Any]) -> None:
    board["panels"][1]["gridPos"]["w"] = "wide"
    board["templating"]["list"][1]["refresh"] = 9
    register_default_plugins()
    wrong = list(wrong_types(model.Dashboard.from_json(board), model.Dashboard, ""))
    assert len(wrong) == 2, wrong


def test_every_panel_has_a_description_and_a_unit(board: dict[str, Any]) -> None:
    for panel in panels(board):
        assert panel["title"]
        assert panel["description"].endswith("."), panel["title"]
        assert panel["fieldConfig"]["defaults"]["unit"], panel["title"]
        assert panel["targets"], panel["title"]
        references = [target["refId"] for target in panel["targets"]]
        assert len(set(references)) == len(references)


def test_no_panel_overlaps_another(board: dict[str, Any]) -> None:
    cells = [
        (x, y)
        for place in (panel["gridPos"] for panel in board["panels"])
        for x in range(place["x"], place["x"] + place["w"])
        for y in range(place["y"], place["y"] + place["h"])
    ]
    assert len(set(cells)) == len(cells)
    assert max(x for x, _ in cells) < 24
    identifiers = [panel["id"] for panel in board["panels"]]
    assert len(set(identifiers)) == len(identifiers)


def test_every_variable_that_is_used_is_defined_before_it_is_used(board: dict[str, Any]) -> None:
    known: set[str] = set()
    for variable in board["templating"]["list"]:
        assert used_in({"query": variable["query"], "source": variable.get("datasource")}) <= known, variable["name"]
        known.add(variable["name"])
    assert used_in(board["panels"]) - BUILT_IN <= known
    assert used_in(board["annotations"]) - BUILT_IN <= known
    asked_for = used_in(board["panels"]) | used_in([variable["query"] for variable in board["templating"]["list"]])
    assert known <= asked_for | {"datasource"}, "a variable that narrows nothing"


def used_in(part: Any) -> set[str]:
    return set(re.findall(r"\$\{?(\w+)", json.dumps(part)))


def test_links_lead_to_existing_dashboards_and_pass_variables_that_these_have(board: dict[str, Any]) -> None:
    boards = {one["uid"]: one for one in read_dashboards()}
    (to_others,) = board["links"]
    assert to_others["type"] == "dashboards"
    assert to_others["includeVars"]
    assert to_others["keepTime"]
    assert all(set(to_others["tags"]) <= set(one["tags"]) for one in boards.values())
    for link in (link for panel in panels(board) for link in panel.get("links", [])):
        path, _, query = link["url"].partition("?")
        target = boards[path.removeprefix("/d/")]
        handed_on = set(re.findall(r"\$\{(\w+):queryparam\}", query))
        assert handed_on
        assert handed_on <= {variable["name"] for variable in target["templating"]["list"]}
