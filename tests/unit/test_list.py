"""`stallbench list` names every scenario and variant by subject, and searches them by words."""

from __future__ import annotations

import io

import pytest
from typer.testing import CliRunner

from stallbench.cli import app
from stallbench.commands.scenarios import list_
from stallbench.console import VisibleConsole
from stallbench.errors import BadInputError
from stallbench.scenario.file import find_scenarios, read_scenario, read_variants
from stallbench.scenario.listing import list_scenarios


def listed(*words: str) -> list[str]:
    ended = CliRunner().invoke(app, ["list", *words])
    assert ended.exit_code == 0
    return ended.stdout.splitlines()


def test_every_scenario_is_listed_below_its_subject_with_its_variants() -> None:
    *lines, _, first, second = listed()
    assert first.startswith("stallbench run longtx ")
    assert second.startswith("stallbench list longtx ")
    subjects = [line for line in lines if not line.startswith(" ")]
    assert subjects == sorted(set(subjects))
    for name, path in find_scenarios().items():
        scenario, variants = read_scenario(name), read_variants(path)
        place = lines.index(f"  {name}  {scenario.summary}")
        assert next(line for line in reversed(lines[:place]) if not line.startswith(" ")) == scenario.subject
        assert not variants or lines[place + 1] == f"      variants:  {', '.join(variants)}"


def test_words_choose_scenarios_and_variants_that_contain_all_of_them() -> None:
    lines = listed("longtx", "WATCHDOG")
    assert "  longtx  One idle transaction on the primary. The queue degrades until the transaction ends." in lines
    assert all("watchdog" in line for line in lines if "--variant" in line)
    chosen = list_scenarios(["mariadb", "deadlock"])
    assert "laravel-deadlock" in {each.name for scenarios in chosen.values() for each in scenarios}
    assert "longtx" not in {each.name for scenarios in chosen.values() for each in scenarios}


def test_a_word_that_nothing_contains_is_answered_by_the_nearest() -> None:
    with pytest.raises(BadInputError, match='no scenario contains "vacum"; did you mean "vacuum"'):
        list_scenarios(["vacum"])
    with pytest.raises(BadInputError, match="no scenario contains all of sqlite, failover"):
        list_scenarios(["sqlite", "failover"])


def test_lines_wrap_at_the_width_of_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    screen = io.StringIO()

    def console(**options: bool) -> VisibleConsole:
        return VisibleConsole(file=screen, force_terminal=True, width=60, no_color=True, **options)  # type: ignore[arg-type]

    monkeypatch.setattr("stallbench.commands.scenarios.VisibleConsole", console)
    list_(["longtx"])
    text = screen.getvalue().replace("\x1b[1m", "").replace("\x1b[0m", "")
    assert "One idle transaction on the primary" in text
    assert max(map(len, text.splitlines())) <= 60
