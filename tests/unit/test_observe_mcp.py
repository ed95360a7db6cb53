"""`stallbench observe mcp`: when the server is read, which part of a reading a tool shows, and what a failure looks like."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any

import anyio
import pytest
from mcp import Client
from mcp.types import CallToolResult

from stallbench.commands import extra
from stallbench.errors import BadInputError, NotCarriedOutError
from stallbench.observe import mcp_server
from stallbench.observe.diagnostic import Finding, Section, Severity
from stallbench.observe.document import ReadingDocument
from stallbench.observe.mcp_server import TOOLS, Readings, make_server
from stallbench.observe.observer import Observation

HOLDER = Finding(
    severity=Severity.CRITICAL,
    subject="horizon",
    also_found_by=("blocking",),
    about="7",
    sentence="Session 7 holds the horizon. It blocks 1 session.",
    statement="KILL 7;",
)
QUEUE = Finding(severity=Severity.WARNING, subject="queues", about="jobs", sentence="jobs is behind.")
READING = Observation(
    at=datetime(2026, 1, 1, 3, 0, tzinfo=UTC),
    title="app on db.test",
    findings=(HOLDER, QUEUE),
    sections=(
        Section(title="Who holds the horizon", subject="horizon", columns=("holder",), rows=(("session 7",),)),
        Section(title="Queues", subject="queues", summary=("jobs: 20 ready",)),
    ),
)


def call(name: str, take_reading: Callable[[], Observation]) -> CallToolResult:
    async def call_it() -> CallToolResult:
        async with Client(make_server(take_reading)) as client:
            result = await client.call_tool(name)
            assert isinstance(result, CallToolResult)
            return result

    return anyio.run(call_it)


@pytest.mark.parametrize(
    ("tool", "findings", "figures"),
    [
        ("find_problems", (HOLDER, QUEUE), []),
        ("find_horizon_holders", (HOLDER,), ["Who holds the horizon"]),
        ("find_blockers", (HOLDER,), []),
        ("list_slow_statements", (), []),
        ("list_queues", (QUEUE,), ["Queues"]),
    ],
)
def test_a_tool_shows_what_its_subjects_found_also_if_it_was_joined_to_another(
    tool: str, findings: tuple[Finding, ...], figures: list[str]
) -> None:
    document = ReadingDocument.model_validate(call(tool, lambda: READING).structured_content)
    assert [one.sentence for one in document.findings] == [one.sentence for one in findings]
    assert [one.title for one in document.figures] == figures
    assert document.queues == ("jobs: 20 ready",)
    assert {one.name for one in TOOLS} >= {tool}


def test_what_a_user_can_cause_is_an_answer_and_not_a_crash() -> None:
    def refuse() -> Observation:
        raise BadInputError("replica1 is no replica\x1b[2J of the primary")

    result = call("find_problems", refuse)
    assert result.is_error
    assert "replica1 is no replica\\x1b[2J of the primary" in result.content[0].model_dump()["text"]
    gone = replace(READING, gone="the server is starting up", findings=())
    assert call("find_problems", lambda: gone).structured_content["gone"] == "the server is starting up"


class FakeSession:
    """An observation whose looks cost ``pause_s`` of waiting."""

    def __init__(self, pause_s: float = 0.0) -> None:
        self.first, self.pause_s = READING, pause_s
        self.options = SimpleNamespace(every_s=0.0)
        self.looks: list[bool] = []

    def read_at_pace(self, show: Callable[[Observation, float], None], *, reads_everything: bool) -> float:
        self.looks.append(reads_everything)
        show(replace(READING, title=f"look {len(self.looks)}"), 0.0)
        return self.pause_s


def readings_of(session: Any) -> Readings:
    return Readings(session)


def test_within_the_pause_the_answer_is_the_last_reading(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mcp_server, "BETWEEN_READINGS_S", 0.0)
    session = FakeSession(pause_s=3600.0)
    readings = readings_of(session)
    titles = [readings.take().title for _ in range(4)]
    assert titles == ["look 1", "look 2", "look 2", "look 2"], "the start is not counted, its second reading reads everything"
    assert session.looks == [True, False]


def test_after_a_long_time_the_server_is_read_twice_because_rates_are_of_now(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mcp_server, "BETWEEN_READINGS_S", 0.0)
    session = FakeSession()
    readings = readings_of(session)
    readings.take()
    monkeypatch.setattr(mcp_server, "LONGEST_PAUSE_S", -1.0)
    assert readings.take().title == "look 3"
    assert session.looks == [True, False, True]


def test_a_missing_package_is_one_line_with_what_to_type(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(name: str) -> None:
        raise ModuleNotFoundError(name)

    monkeypatch.setattr(extra, "import_module", refuse)
    monkeypatch.setattr(extra, "IS_WHEEL", True)
    with pytest.raises(NotCarriedOutError, match=r"^stallbench observe mcp needs .* pip install 'stallbench\[mcp\]'$"):
        extra.require_mcp("stallbench observe mcp")
