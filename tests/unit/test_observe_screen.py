"""What a report of `stallbench observe` looks like: what is in it, and that a statement can be copied from it at any width."""

from __future__ import annotations

import io
from datetime import UTC, datetime

import pytest
from rich.console import Console

from stallbench.observe.diagnostic import Finding, NotVisible, Section, Severity
from stallbench.observe.observer import Observation
from stallbench.observe.screen import ObserveScreen

STATEMENT = f"SELECT pg_catalog.pg_drop_replication_slot('{'a long name ' * 20}');"
REMEDY = f"GRANT SELECT ON {'a_long_name' * 20} TO reader;"
FINDING = Finding(
    severity=Severity.WARNING,
    subject="replication",
    about="slot",
    sentence="A slot keeps WAL. " * 8,
    because="the disk will be full",
    statement=STATEMENT,
    caution="loses its consumer's position",
)
UNSEEN = NotVisible(what="the jobs", why="the user may not read them", remedy=REMEDY)
QUEUES = Section(title="Queues", columns=("queue", "ready"), rows=(("River", "20"),), summary=("River: 20 ready",))
NOTHING = Section(title="Wraparound", sentences=("236 d left.",), says_nothing=True)


def observed(*findings: Finding, sections: tuple[Section, ...] = (), not_visible: tuple[NotVisible, ...] = ()) -> Observation:
    at = datetime(2026, 1, 1, 3, 0, tzinfo=UTC)
    return Observation(at=at, title="app", findings=findings, sections=sections, not_visible=not_visible)


def lines_of(observation: Observation, *, width: int = 160, shows_all: bool = False, is_terminal: bool = False) -> list[str]:
    file = io.StringIO()
    console = Console(file=file, width=width, height=50, force_terminal=is_terminal, color_system=None, highlight=False)
    ObserveScreen(console, shows_all=shows_all).print(observation)
    return file.getvalue().splitlines()


@pytest.mark.parametrize("is_terminal", [True, False])
@pytest.mark.parametrize("width", [60, 80, 100, 160])
def test_a_statement_is_whole_on_a_line_of_its_own_at_any_width(width: int, is_terminal: bool) -> None:
    lines = lines_of(observed(FINDING, not_visible=(UNSEEN,)), width=width, is_terminal=is_terminal)
    assert [line.strip() for line in lines if "pg_drop" in line or "GRANT" in line] == [STATEMENT, REMEDY]
    shown_width = width if is_terminal else 160
    others = [line for line in lines if line.strip() not in (STATEMENT, REMEDY)]
    assert max(map(len, others)) <= shown_width, "everything else is wrapped"


@pytest.mark.parametrize("width", [60, 80, 100])
def test_the_redrawn_report_has_the_statement_whole_and_leaves_out_what_does_not_fit(width: int) -> None:
    file = io.StringIO()
    console = Console(file=file, width=width, height=50, force_terminal=True, color_system=None, highlight=False)
    with ObserveScreen(console) as screen:
        screen.show(observed(FINDING), "next reading")
        assert STATEMENT in file.getvalue()
        began = len(file.getvalue())
        screen.show(observed(*[FINDING] * 9), "next reading")
        drawn = file.getvalue()[began:]
        rows = sum(max(1, -(-len(line) // width)) for line in drawn.splitlines())
        assert rows <= console.height
        assert "more lines do not fit; next reading" in drawn.splitlines()[-1]
        ended = len(file.getvalue())
    assert file.getvalue()[ended:].count(STATEMENT) == 9, "the last report is printed whole when the observation ends"


def test_in_a_file_no_line_ends_with_blanks() -> None:
    for shows_all in (True, False):
        lines = lines_of(observed(FINDING, sections=(QUEUES,), not_visible=(UNSEEN,)), shows_all=shows_all)
        assert [line for line in lines if line != line.rstrip()] == []


def test_a_report_has_the_queues_and_the_findings_and_only_on_request_all_figures() -> None:
    observation = observed(FINDING, sections=(QUEUES, NOTHING))
    short = "\n".join(lines_of(observation))
    assert short.index("River: 20 ready") < short.index("WARNING")
    assert "queue" not in short
    assert "add --all" in short
    everything = "\n".join(lines_of(observation, shows_all=True))
    assert "Queues" in everything
    assert "--all" not in everything
    assert "Wraparound" not in short + everything, "it says nothing"


def test_what_cannot_be_seen_spoils_the_all_clear_only_if_it_could_be_the_cause() -> None:
    beside_the_point = NotVisible(what="older vacuums", why="only the log has them", could_change_the_answer=False)
    clear = "\n".join(lines_of(observed(not_visible=(beside_the_point,))))
    assert "Nothing that would slow a queue down was found." in clear
    assert "older vacuums" not in clear
    assert "older vacuums" in "\n".join(lines_of(observed(not_visible=(beside_the_point,)), shows_all=True))
    assert "in what can be seen from here. What cannot be seen is below." in "\n".join(lines_of(observed(not_visible=(UNSEEN,))))
