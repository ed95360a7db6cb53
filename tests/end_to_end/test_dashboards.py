"""Every query of every dashboard, put to a real Prometheus while it watches a real run, returns data."""

from __future__ import annotations

import html
import re
import signal
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
import pytest
import requests

from dashboards.availability import ONLY_ON
from stallbench.base.ports import find_free_port
from stallbench.run.observers.dashboards import read_dashboards
from stallbench.run.observers.prometheus import CURVES
from tests.end_to_end.conftest import Bench, assert_nothing_is_left, marked_with_folder
from tests.waiting import wait_for

pytestmark = pytest.mark.end_to_end

SCENARIOS = Path(__file__).parent / "watched"
PATIENCE_S = 300.0
"""Half of the phase in which the queries are asked."""


@dataclass(frozen=True, slots=True)
class Query:
    """One query of a dashboard, with its variables in place."""

    where: str
    expr: str
    label: str | None = None
    """Whose values it asks for; none if it asks for the series themselves."""
    is_instant: bool = False

    @property
    def only_on(self) -> set[str]:
        """Engines of which it asks for something that the others have not, unless it is content with what there is."""
        return set() if " or " in self.expr else {ONLY_ON[name][0] for name in self.metrics if name in ONLY_ON}

    @property
    def metrics(self) -> set[str]:
        return {name.removesuffix("_bucket") for name in re.findall(r"stallbench_\w+", self.expr)}


class Prometheus:
    """The one that watches a run."""

    def __init__(self, address: str) -> None:
        self.address = address
        self.start_s = time.time()

    def ask(self, query: Query) -> list[Any]:
        now_s = time.time()
        if query.label:
            return list(self._get(f"label/{query.label}/values", {"match[]": query.expr}))
        if query.is_instant:
            return list(self._get("query", {"query": query.expr})["result"])
        data = self._get("query_range", {"query": query.expr, "start": self.start_s, "end": now_s, "step": 1})
        return list(data["result"])

    def _get(self, path: str, parameters: dict[str, Any]) -> Any:
        answer = requests.get(f"{self.address}/api/v1/{path}", params=parameters, timeout=30)
        assert answer.ok, f"{parameters}: {answer.text}"
        return answer.json()["data"]


def all_queries(run: str, scenario: str) -> Iterator[Query]:
    """Yield every query of panels, variables and annotations, as Grafana would ask it of this run."""
    values = {"run": run, "scenario": scenario, "variant": ".*", "engine": ".*", "server": ".*"}
    values |= {"__rate_interval": "4s", "__range": "300s"}

    def filled(expr: str) -> str:
        text = re.sub(r"\$(\w+)", lambda found: values[found[1]], expr)
        assert "$" not in text
        return text

    for board in read_dashboards():
        for panel in board["panels"]:
            for target in panel.get("targets", []):
                where = f"{board['title']}: {panel['title']}: {target['refId']}"
                yield Query(where, filled(target["expr"]), is_instant=bool(target.get("instant")))
        for variable in board["templating"]["list"]:
            if variable["type"] == "query":
                found = re.fullmatch(r"label_values\((.*), (\w+)\)", variable["query"])
                assert found, variable["query"]
                yield Query(f"{board['title']}: ${variable['name']}", filled(found[1]), label=found[2])
        for annotation in board["annotations"]["list"]:
            if "expr" in annotation:
                assert annotation["expr"] == annotation["target"]["expr"]
                yield Query(f"{board['title']}: {annotation['name']}", filled(annotation["expr"]))


@pytest.mark.parametrize("engine", ["postgres", pytest.param("mariadb", marks=pytest.mark.long)])
def test_every_query_returns_data_of_a_run_that_is_watched(bench: Bench, engine: str) -> None:
    port = find_free_port()
    run = bench.start("run", str(SCENARIOS / f"{engine}.toml"), "--watch", "--watch-port", str(port))
    try:
        bench.wait_for_phase("held")
        prometheus = Prometheus(f"http://127.0.0.1:{port}")
        prometheus.start_s -= 30
        queries = list(all_queries(bench.folder().name, engine))
        of_this = {query for query in queries if query.only_on <= {engine}}
        left = set(of_this)

        def all_have_data() -> bool:
            left.difference_update([query for query in left if prometheus.ask(query)])
            assert not left or run.poll() is None
            return not left

        wait_for(all_have_data, lambda: "data of " + "\n".join(f"{q.where}: {q.expr}" for q in left), PATIENCE_S, every_s=1)
        # What is said to be on one engine only is really not on the other.
        excused = [query for query in queries if query not in of_this]
        assert excused
        assert not [query for query in excused if prometheus.ask(query)]
        assert {name for name, (where, _) in ONLY_ON.items() if where != engine} == {
            name for query in excused for name in query.metrics & set(ONLY_ON)
        }
        (process,) = [one for one in marked_with_folder(bench.folder()) if one.info["name"] == "prometheus"]
        assert psutil.Process(process.pid).memory_info().rss < 500e6
        (to_curves,) = re.findall(r"url=([^\"]+)", requests.get(f"{prometheus.address}/user/", timeout=30).text)
        page = requests.get(f"{prometheus.address}/user/{html.unescape(to_curves)}", timeout=30)
        assert page.ok, page.text
        assert all(prometheus.ask(Query("a curve", expr)) for expr in CURVES)
        for script in re.findall(r'<script src="([^"]+)"', page.text):
            assert requests.get(f"{prometheus.address}{script}", timeout=30).ok, script
        if engine == "postgres":
            # One that ends is reported, and the run continues without it.
            process.kill()
            said = "prometheus exited unexpectedly (SIGKILL)"
            wait_for(lambda: any(said in note for note in bench.record()["notes"]), f"the note {said!r}", 120)
            assert run.poll() is None
        run.send_signal(signal.SIGKILL if engine == "mariadb" else signal.SIGINT)
        out, _ = run.communicate(timeout=600)
        assert f"Prometheus observes the run until it ends: {prometheus.address}" in out
        assert_nothing_is_left(bench, run.pid, within_s=90)
        with pytest.raises(requests.ConnectionError):
            prometheus.ask(queries[0])
        assert not list((bench.runs / "targets").iterdir())
    finally:
        if run.poll() is None:
            run.kill()
            run.communicate()
