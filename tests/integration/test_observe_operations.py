"""Long operations on a real PostgreSQL that its progress views leave out, or that only look like one."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from stallbench.observe.observer import Observation
from tests.integration.conftest import EmptyOn
from tests.integration.observed import look_at, section_of, text_of
from tests.integration.observed_states import record_state
from tests.integration.waiting_sessions import Sessions, pid_of, sessions_on
from tests.waiting import wait_for

pytestmark = pytest.mark.integration

SLOW = "SELECT pg_sleep(600)::text AS slow, 1 AS n"
"""A query without an end."""


@pytest.fixture
def sessions(empty_on: EmptyOn) -> Iterator[Sessions]:
    with sessions_on(empty_on("postgres")) as opened:
        yield opened


@pytest.mark.parametrize(
    ("statement", "shown", "before"),
    [
        (
            "REFRESH MATERIALIZED VIEW totals",
            "REFRESH MATERIALIZED VIEW",
            (f"CREATE MATERIALIZED VIEW totals AS {SLOW} WITH NO DATA",),
        ),
        (
            "/* nightly */ refresh materialized view totals",
            "REFRESH MATERIALIZED VIEW",
            (f"CREATE MATERIALIZED VIEW totals AS {SLOW} WITH NO DATA",),
        ),
        (f"CREATE TABLE copied AS {SLOW}", "CREATE TABLE", ()),
        (
            "ALTER TABLE rewritten ALTER COLUMN n TYPE bigint USING n + length(pg_sleep(600)::text)",
            "ALTER TABLE",
            ("CREATE TABLE rewritten (n int)", "INSERT INTO rewritten VALUES (1)"),
        ),
        ("COPY read FROM PROGRAM 'sleep 600'", "COPY FROM: public.read", ("CREATE TABLE read (line text)",)),
    ],
)
def test_an_operation_is_listed_with_its_session(sessions: Sessions, statement: str, shown: str, before: tuple[str, ...]) -> None:
    session = sessions.open("nightly", *before)
    sessions.send(session, statement)

    def find() -> Observation | None:
        observation = look_at(sessions.endpoint)
        return observation if section_of(observation, "Long operations").rows else None

    observation = wait_for(find, f"{shown} among the long operations")
    record_state(f"{shown} runs for long", f"session {pid_of(session)} is a long operation", observation)
    (row,) = section_of(observation, "Long operations").rows
    assert row[0] == shown
    assert f"session {pid_of(session)} " in row[1]
    assert "No " not in text_of(section_of(observation, "Long operations"))


def test_a_long_query_is_no_long_operation(sessions: Sessions) -> None:
    reader = sessions.open("report")
    sessions.send(reader, f"/* refresh materialized view */ {SLOW}")
    wait_for(
        lambda: f"session {pid_of(reader)} " in text_of(section_of(look_at(sessions.endpoint), "Who holds")),
        "the query among the holders of the horizon",
    )
    operations = section_of(look_at(sessions.endpoint), "Long operations")
    assert not operations.rows
    assert "REFRESH MATERIALIZED VIEW is running, unless a function executes it." in text_of(operations)
