"""What reading a scenario gives: every shipped one is valid, what is read can be written, and nonsense gives issues only."""

from __future__ import annotations

import json
import random
import re
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from stallbench.base.duration import format_duration, parse_duration_s
from stallbench.errors import EXIT_BAD_INPUT, NotCarriedOutError
from stallbench.queues import find_queues
from stallbench.scenario.file import ScenarioError, find_scenarios, read_scenario, read_variants
from stallbench.scenario.longrunner_issue import LongrunnerIssue
from stallbench.scenario.model import Scenario
from stallbench.scenario.validation.longrunners import ask_longrunners
from tests.unit.scenario_text import SMALL, ask_longrunners_here, find_lines, read, write

pytestmark = pytest.mark.slow

GUIDE = Path(__file__).resolve().parents[2] / "docs" / "add-a-scenario.md"
SHIPPED = [(name, variant) for name, path in find_scenarios().items() for variant in (None, *read_variants(path))]


def test_the_scenarios_of_the_project_are_found() -> None:
    assert {"longtx", "longtx-replica", "longtx-holders", "analytics-overlap", "baseline"} <= set(find_scenarios())


@pytest.mark.parametrize(("name", "variant"), SHIPPED, ids=[f"{name}-{variant}" for name, variant in SHIPPED])
def test_a_shipped_scenario_is_valid_and_has_a_purpose(name: str, variant: str | None) -> None:
    scenario = read_scenario(name, variant=variant)
    assert (scenario.name, scenario.variant, scenario.file) == (name, variant, f"scenarios/{name}.toml")
    assert scenario.summary.endswith(".")
    assert scenario.expect
    assert all(expectation.because for expectation in scenario.expect)


@pytest.mark.parametrize(("name", "variant"), SHIPPED, ids=[f"{name}-{variant}" for name, variant in SHIPPED])
def test_what_is_written_into_a_run_is_what_was_read(name: str, variant: str | None) -> None:
    scenario = read_scenario(name, variant=variant)
    written = scenario.model_dump(mode="json")
    assert json.loads(json.dumps(written, allow_nan=False)) == written
    assert list(written) == list(Scenario.model_fields)
    assert written["queue"] == {"kind": scenario.queue.kind, **scenario.queue.options}
    assert [phase["duration_s"] for phase in written["phases"]] == [phase.duration_s for phase in scenario.phases]
    longrunners = [longrunner for phase in written["phases"] for longrunner in phase["longrunners"]]
    read_back = [longrunner for phase in scenario.phases for longrunner in phase.longrunners]
    assert longrunners == [{"kind": r.kind, "on": r.on, "may_be_ended": r.may_be_ended, **r.options} for r in read_back]


def test_what_the_file_leaves_out_has_its_default(tmp_path: Path) -> None:
    scenario = read(tmp_path, SMALL)
    assert scenario.duration_s == 16
    assert (scenario.database.engine, scenario.database.hot_standby_feedback) == ("postgres", False)
    assert (scenario.workers.poll_s, scenario.collectors.interval_s) == (0.02, 1.0)
    assert [phase.measured for phase in scenario.phases] == [False, True, True]
    assert scenario.phases[2].longrunners[0].on == "primary"


def test_a_scenario_cannot_be_changed_once_it_is_read(tmp_path: Path) -> None:
    workers = read(tmp_path, SMALL).workers
    for key in type(workers).model_fields:
        with pytest.raises(ValidationError, match="frozen"):
            setattr(workers, key, 3)


def test_a_bad_scenario_is_bad_input() -> None:
    assert ScenarioError(["one", "two"]).exit_code == EXIT_BAD_INPUT


def test_a_queue_that_does_not_run_on_the_engine_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(find_queues()["que"], "engines", frozenset({"mariadb"}))
    others = [kind for kind, queue in find_queues().items() if "postgres" in queue.engines and kind != "que"]
    assert find_lines(tmp_path, SMALL) == [
        f'queue.kind is "que", which runs on mariadb, not on postgres; expected one of {", ".join(others)}'
    ]


def test_the_longrunners_answer_the_same_in_a_process_of_their_own() -> None:
    questions = json.dumps(
        [
            {"kind": "idle_writer", "role": "primary", "options": {}, "settings": {}},
            {"kind": "idle_write", "role": "primary", "options": {}, "settings": {}},
            {"kind": "idle_writer", "role": "replica", "options": {"each": 1}, "settings": {}},
            {"kind": "prepared", "role": "primary", "options": {}, "settings": {}},
            {"kind": "overlapping_readers", "role": "primary", "options": {"each": "2h", "readers": True}, "settings": {}},
        ]
    )
    answers = ask_longrunners(questions)
    assert [len(issues) for issues in answers] == [0, 1, 2, 1, 2]
    assert answers == ask_longrunners_here(questions)


def test_a_file_whose_variants_differ_in_what_their_longrunners_need_takes_one_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []

    def ask(questions: str) -> list[list[LongrunnerIssue]]:
        asked.append(questions)
        return ask_longrunners_here(questions)

    monkeypatch.setattr("stallbench.scenario.validation.longrunners._answered", {})
    monkeypatch.setattr("stallbench.scenario.validation.longrunners.ask_longrunners", ask)
    varied = "".join(f"\n[variants.slow_{n}]\ndatabase.settings.autovacuum_naptime = '{n}s'\n" for n in (1, 2))
    replaced = f'{varied}\n[variants.prepared]\nphases.longtx.longrunners = [{{ kind = "prepared" }}]\n'
    changed = ["database.settings.autovacuum_naptime=3s"]
    (line,) = find_lines(tmp_path, SMALL + replaced, variant="slow_1", overrides=changed)
    assert line.startswith("variants.prepared.phases.longtx.longrunners[0].kind"), line
    assert read(tmp_path, SMALL + varied, variant="slow_2", overrides=changed).changes == tuple(changed)
    assert [len(json.loads(questions)) for questions in asked] == [5], "the second time every answer is known"


@pytest.mark.parametrize(
    ("outcome", "line"),
    [
        (
            subprocess.CalledProcessError(1, "python", stderr="Traceback ..\nSyntaxError: invalid syntax\n"),
            "failed: SyntaxError: invalid syntax",
        ),
        (subprocess.CalledProcessError(-9, "python", stderr=""), "failed: exit code -9"),
        (subprocess.TimeoutExpired("python", 30), "gave no answer within 30 s"),
    ],
)
def test_longrunners_that_cannot_be_asked_end_the_command_with_a_reason(
    outcome: Exception, line: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise outcome

    monkeypatch.setattr("stallbench.scenario.validation.longrunners._answered", {})
    monkeypatch.setattr("stallbench.scenario.validation.longrunners.ask_longrunners", ask_longrunners)
    monkeypatch.setattr("stallbench.scenario.validation.longrunners.subprocess.run", fail)
    with pytest.raises(NotCarriedOutError, match=re.escape(f"python -m longrunners --check {line}")):
        read(tmp_path, SMALL)


@pytest.mark.parametrize(
    ("text", "seconds"), [("0s", 0), ("1us", 1e-6), ("20ms", 0.02), ("90s", 90), ("1.5m", 90), ("24h", 86_400)]
)
def test_a_duration_is_a_number_and_its_unit(text: str, seconds: float) -> None:
    assert parse_duration_s(text) == pytest.approx(seconds)
    assert parse_duration_s(format_duration(seconds)) == pytest.approx(seconds)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(169, "169s"), (90, "1.5m"), (14_400, "4h"), (6_060, "101m"), (28.1234, "28.1234s"), (0.0205, "20.5ms"), (0, "0s")],
)
def test_a_duration_is_shown_in_the_largest_unit_that_needs_at_most_two_decimals(seconds: float, text: str) -> None:
    assert format_duration(seconds) == text


def test_the_guide_lists_every_queue() -> None:
    guide = GUIDE.read_text().splitlines()
    rows = [f"| `{kind}` | {', '.join(sorted(queue.engines))} | {queue.summary} |" for kind, queue in find_queues().items()]
    assert not [row for row in rows if row not in guide]


def test_the_examples_of_the_guide_can_be_run(tmp_path: Path) -> None:
    whole = [
        example
        for example in re.findall(r"```toml\n(.*?)```", GUIDE.read_text(), re.DOTALL)
        if "summary" in example.split("\n")[0]
    ]
    assert whole, "the guide shows no whole scenario"
    for number, example in enumerate(whole):
        path = write(tmp_path, example, f"example-{number}.toml")
        for variant in (None, *read_variants(path)):
            assert read_scenario(str(path), variant=variant).phases


NONSENSE: list[Any] = [
    None,
    True,
    -1,
    2**70,
    1e300,
    "",
    "x" * 300,
    "5s",
    "25h",
    "\x00",
    [],
    {},
    [[]],
    {"a": {}},
    [3],
    [{}],
    "que",
    "run",
]
FRAGMENTS = [
    "[",
    "]",
    "{",
    "}",
    "=",
    '"',
    "'",
    ".",
    "\n",
    "nan",
    "2015-05-18",
    "# ",
    "[variants.x]",
    "[[expect]]",
    "\ufeff",
    "phases = 3\n",
    "queue.kind = 3\n",
]


def spoil_text(text: str, chance: random.Random) -> str:
    """Cut, double or insert something, as an accident in an editor would."""
    at, to = sorted(chance.randrange(len(text) + 1) for _ in range(2))
    to = min(to, at + 40)
    return text[:at] + chance.choice(["", text[at:to] * 2, chance.choice(FRAGMENTS)]) + text[chance.choice([at, to]) :]


def spoil_lines(text: str, chance: random.Random) -> str:
    """Change a value, or move or remove a line."""
    lines = text.split("\n")
    at = chance.randrange(len(lines))
    line = lines.pop(at)
    key, equals, _ = line.partition(" = ")
    match chance.randrange(3):
        case 0 if equals:
            lines.insert(at, f"{key} = {json.dumps(chance.choice(NONSENSE[1:])).replace(': ', ' = ')}")
        case 1:
            lines.insert(chance.randrange(len(lines) + 1), line)
    return "\n".join(lines)


def find_issues_of(path: Path, overrides: list[str]) -> list[str]:
    try:
        read_scenario(str(path), overrides=overrides)
    except ScenarioError as error:
        assert error.issues, "refused without a reason"  # noqa: PT017 - both outcomes are valid
        return error.issues
    return []


@pytest.mark.parametrize("times", [10, pytest.param(60, marks=pytest.mark.long)])
@pytest.mark.parametrize("spoil", [spoil_text, spoil_lines])
@pytest.mark.parametrize("name", find_scenarios())
def test_a_spoiled_file_is_read_or_refused_in_lines(
    name: str, spoil: Callable[[str, random.Random], str], times: int, tmp_path: Path
) -> None:
    chance = random.Random(f"{name} {spoil.__name__}")
    original = find_scenarios()[name].read_text()
    refused = 0
    for _ in range(times):
        text = original
        for _ in range(chance.randint(1, 3)):
            text = spoil(text, chance)
        path = write(tmp_path, text)
        override = [f"{chance.choice(['seed', 'queue', 'phases.baseline', 'expect', 'x'])}={chance.choice(FRAGMENTS)}"]
        issues = find_issues_of(path, chance.choice([[], override]))
        refused += bool(issues)
        assert all(issue.startswith(f"{path}: ") and issue.isprintable() for issue in issues), issues
    assert refused > times / 6
