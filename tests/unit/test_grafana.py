"""The dashboards and annotations reach a Grafana, and one that is not there, refuses or is none gets one clear message.

No Grafana can be had here: it is a stand-in that answers by Grafana's documented API, see `tests.grafana_stand_in`.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pydantic import SecretStr
from typer.testing import CliRunner

from stallbench.base.ports import find_free_port
from stallbench.cli import app
from stallbench.errors import BadInputError, StallbenchError
from stallbench.run.intervals import Interval
from stallbench.run.observers.annotations import Annotations
from stallbench.run.observers.dashboards import push_dashboards, read_dashboards
from stallbench.run.observers.grafana import TOKEN_VARIABLE, GrafanaAddress, GrafanaRefusedError, read_grafana
from tests.grafana_stand_in import TOKEN, GrafanaStandIn, grafana_stand_in

LABELS = {"run": "20261121T101500Z-longtx", "scenario": "longtx", "variant": "control"}
PHASE = Interval(what="phase", name="longtx", kind="measured", on="", start_ns=1_700_000_000_000_000_000, end_ns=None)
FAULT = Interval(what="fault", name="kill-1", kind="kill", on="primary", start_ns=PHASE.start_ns, end_ns=PHASE.start_ns)


@pytest.fixture
def stand_in() -> Iterator[GrafanaStandIn]:
    with grafana_stand_in() as made:
        yield made


def address_of(stand_in: GrafanaStandIn, token: str = TOKEN) -> GrafanaAddress:
    return GrafanaAddress(stand_in.url, SecretStr(token))


def test_pushing_twice_is_as_pushing_once(stand_in: GrafanaStandIn, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(TOKEN_VARIABLE, TOKEN)
    push = ["dashboards", "push", "--url", f"{stand_in.url}/", "--prometheus"]
    printed = []
    for prometheus in ("http://127.0.0.1:9090", "http://127.0.0.1:9090", "http://127.0.0.1:9091"):
        result = CliRunner().invoke(app, [*push, prometheus])
        assert result.exit_code == 0, result.output
        assert TOKEN not in result.output
        printed.append(result.output)
    assert "folder Stallbench: created" in printed[0]
    assert "data source Stallbench's Prometheus: created, for http://127.0.0.1:9090" in printed[0]
    assert "folder Stallbench: already exists" in printed[1]
    assert "already exists, for http://127.0.0.1:9090" in printed[1]
    assert "changed, to http://127.0.0.1:9091" in printed[2]
    assert {uid: kept["dashboard"] for uid, kept in stand_in.dashboards.items()} == {
        board["uid"]: board for board in read_dashboards()
    }
    assert all(kept["folderUid"] == "stallbench" for kept in stand_in.dashboards.values())
    (source,) = stand_in.sources.values()
    assert (source["type"], source["url"]) == ("prometheus", "http://127.0.0.1:9091")
    assert f"{stand_in.url}/d/stallbench-run/slug" in printed[0]


def test_a_token_may_also_be_typed(stand_in: GrafanaStandIn) -> None:
    result = CliRunner().invoke(app, ["dashboards", "push", "--url", stand_in.url, "--token", TOKEN])
    assert result.exit_code == 0, result.output
    assert not stand_in.sources, "no data source was requested"
    result = CliRunner().invoke(app, ["dashboards", "push", "--url", stand_in.url, "--token", TOKEN, "--prometheus", "here"])
    assert 'expected an address like "http://127.0.0.1:9090"' in str(result.exception)


@pytest.mark.parametrize(
    ("url", "says"),
    [
        ("http://127.0.0.1:3000", "the token is missing"),
        ("http://127.0.0.1:grafana", 'expected an address like "http://127.0.0.1:3000"'),
        ("127.0.0.1:3000", 'expected an address like "http://127.0.0.1:3000"'),
        ("http://admin:secret@127.0.0.1:3000", "remove user and password"),
    ],
)
def test_impossible_options_are_refused_before_any_request(url: str, says: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(TOKEN_VARIABLE, raising=False)
    for token in (None, "") if "missing" in says else (None, TOKEN):
        with pytest.raises(BadInputError) as raised:
            read_grafana(url, token, "--url")
        assert says in str(raised.value)
        assert "secret" not in str(raised.value)
    ended = CliRunner().invoke(app, ["run", "longtx", "--annotate", url])
    assert isinstance(ended.exception, BadInputError)
    assert says in str(ended.exception)


REFUSALS = [
    ((401, "Invalid API key"), "does not accept the token (401)"),
    ((403, "You'll need additional permissions"), "(403); give its service account the role Editor"),
    ((500, "database is locked"), "failed and could not"),
    ((404, "Not found"), "refused and could not"),
]


def refusal_of(stand_in: GrafanaStandIn, token: str = TOKEN) -> str:
    """Return how a push is refused, and see to it that annotations are refused alike, once, whatever comes after."""
    with pytest.raises(GrafanaRefusedError) as raised:
        list(push_dashboards(address_of(stand_in, token)))
    assert isinstance(raised.value, StallbenchError)
    said: list[str] = []
    annotations = Annotations(address_of(stand_in, token), LABELS, said.append)
    annotations.observe([PHASE])
    annotations.observe([PHASE, FAULT])
    annotations.end()
    annotations.end()
    (sentence,) = said
    assert sentence.startswith("--annotate: the run continues without annotations: ")
    for message in (str(raised.value), sentence):
        assert stand_in.url in message
        assert "\n" not in message
        assert token not in message
    return str(raised.value)


@pytest.mark.parametrize(("refusal", "says"), REFUSALS)
def test_a_grafana_that_refuses_gets_one_message(stand_in: GrafanaStandIn, refusal: tuple[int, str], says: str) -> None:
    stand_in.refuse_with = refusal
    assert says in refusal_of(stand_in)


def test_a_wrong_token_a_grafana_that_is_down_and_a_server_that_is_not_grafana(stand_in: GrafanaStandIn) -> None:
    assert "does not accept the token" in refusal_of(stand_in, "glsa_another")
    stand_in.is_other_page = True
    assert "is not Grafana" in refusal_of(stand_in)
    stand_in.url = f"http://127.0.0.1:{find_free_port()}"
    assert refusal_of(stand_in) == f"no Grafana can be reached at {stand_in.url}: Connection refused"


def test_intervals_become_regions_at_their_actual_times(stand_in: GrafanaStandIn) -> None:
    said: list[str] = []
    annotations = Annotations(address_of(stand_in), LABELS, said.append)
    annotations.observe([PHASE])
    annotations.observe([PHASE, FAULT])
    annotations.observe([PHASE, FAULT])
    ended = Interval(what="phase", name="longtx", kind="measured", on="", start_ns=PHASE.start_ns, end_ns=PHASE.start_ns + 10**10)
    annotations.observe([ended, FAULT])
    annotations.end()
    assert not said
    began_ms = PHASE.start_ns // 10**6
    assert [
        (one["text"], one["time"], one["timeEnd"], one["tags"][0], one["tags"][-1]) for one in stand_in.annotations.values()
    ] == [
        ("phase longtx", began_ms, began_ms + 10_000, "stallbench", "phase"),
        ("kill-1 on primary", began_ms, began_ms, "stallbench", "fault"),
    ]
    assert all(LABELS["run"] in one["tags"] for one in stand_in.annotations.values())
    assert len(stand_in.requests) == 3, "two added, one changed"
