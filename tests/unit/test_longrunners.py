"""How longrunners are found and described, and how a scenario's choices are validated, without any server."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from longrunners import find_longrunners
from longrunners.validation import Choice, find_issues
from stallbench.engines import ENGINES

PROJECT = Path(__file__).resolve().parents[2]
_KIND = re.compile(r'^    kind = "(\w+)"$', re.MULTILINE)
KINDS = list(find_longrunners())
ENDPOINT = {"engine": "postgres", "host": "127.0.0.1", "port": 1, "database": "d", "user": "u", "password": "hidden"}


def ask(*arguments: str, document: object) -> subprocess.CompletedProcess[str]:
    """Run the command as the bench does."""
    return subprocess.run(
        [sys.executable, "-m", "longrunners", *arguments],
        input=document if isinstance(document, str) else json.dumps(document),
        capture_output=True,
        text=True,
        cwd=PROJECT,
        check=False,
    )


def test_every_file_with_a_longrunner_is_found() -> None:
    declared = {kind for file in (PROJECT / "longrunners").glob("*.py") for kind in _KIND.findall(file.read_text())}
    assert "idle_writer" in declared
    assert sorted(declared) == sorted({kind for engine in ENGINES for kind in find_longrunners(engine)})
    assert sorted(KINDS) == KINDS


def test_the_docs_list_every_kind() -> None:
    listed = set(re.findall(r"^\| `(\w+)` \|", (PROJECT / "docs" / "add-a-longrunner.md").read_text(), re.MULTILINE))
    assert listed == set(KINDS)


@pytest.mark.parametrize(
    ("engine", "kinds"),
    [
        ("mariadb", {"idle_writer", "replica_reader", "snapshot_reader"}),
        ("mysql", {"idle_writer", "replica_reader", "snapshot_reader"}),
        ("sqlite", {"snapshot_reader"}),
    ],
)
def test_other_engines_have_these_too_but_not_those_that_need_postgresql(engine: str, kinds: set[str]) -> None:
    found = set(find_longrunners(engine))
    assert found >= kinds
    assert not found & {"prepared", "slot", "stuck_listener"}


@pytest.mark.parametrize("kind", KINDS)
def test_a_kind_has_a_summary_a_source_and_described_options(kind: str) -> None:
    longrunner = find_longrunners()[kind]
    assert longrunner.summary and longrunner.source
    assert longrunner.roles and set(longrunner.roles) <= {"primary", "replica"}
    assert all(field.description for field in longrunner.options_type.model_fields.values())


@pytest.mark.parametrize("kind", KINDS)
def test_a_kind_needs_no_option(kind: str) -> None:
    role = find_longrunners()[kind].roles[0]
    assert find_issues(Choice(kind=kind, role=role)) == []


BAD_CHOICES: list[tuple[dict[str, Any], str]] = [
    ({"kind": "idle_writr", "role": "primary"}, f"kind is 'idle_writr'; expected one of {', '.join(KINDS)}"),
    (
        {"kind": "slot", "engine": "mariadb"},
        f"kind is 'slot'; expected one of {', '.join(find_longrunners('mariadb'))}",
    ),
    ({"kind": "idle_writer", "role": "replica"}, "on is replica; expected a primary, where idle_writer runs"),
    ({"kind": "replica_reader", "role": "primary"}, "on is primary; expected a replica, where replica_reader runs"),
    ({"kind": "idle_writer", "options": {"rows": 1}}, "rows: unknown key; no key is allowed here"),
    ({"kind": "slot", "options": {"typ": "logical"}}, "typ: unknown key; allowed are type"),
    ({"kind": "slot", "options": {"type": "other"}}, "type is 'other'; expected 'physical' or 'logical'"),
    (
        {"kind": "overlapping_readers", "options": {"each": 20}},
        'each is 20; expected a number with us, ms, s, m or h, like "90s"',
    ),
    (
        {"kind": "overlapping_readers", "options": {"readers": 1}},
        "readers is 1; expected greater than or equal to 2",
    ),
    (
        {"kind": "overlapping_readers", "options": {"readers": "3"}},
        "readers is '3'; expected a valid integer",
    ),
    (
        {"kind": "prepared", "settings": {}},
        "kind is 'prepared'; expected max_prepared_transactions of at least 1 in database.settings",
    ),
    (
        {"kind": "slot", "options": {"type": "logical"}, "settings": {"wal_level": "replica"}},
        "kind is 'slot'; expected wal_level = 'logical' in database.settings, for a logical slot",
    ),
]


@pytest.mark.parametrize(("choice", "sentence"), BAD_CHOICES)
def test_an_issue_names_what_is_allowed(choice: dict[str, Any], sentence: str) -> None:
    assert [str(issue) for issue in find_issues(Choice.model_validate(choice))] == [sentence]


@pytest.mark.parametrize(
    ("kind", "options", "settings"),
    [
        ("prepared", {}, {"max_prepared_transactions": 4}),
        ("slot", {"type": "logical"}, {"wal_level": "logical"}),
        ("slot", {"type": "physical"}, {}),
    ],
)
def test_a_choice_with_the_required_settings_has_no_issue(
    kind: str, options: dict[str, object], settings: dict[str, object]
) -> None:
    assert find_issues(Choice(kind=kind, role="primary", options=options, settings=settings)) == []


def test_all_choices_of_a_scenario_are_checked_by_one_command() -> None:
    good = {"kind": "idle_writer", "role": "primary", "options": {}}
    bad = {"kind": "overlapping_readers", "role": "primary", "options": {"raeders": 2, "each": "5s"}}
    ended = ask("--check", document=[good, bad])
    assert ended.returncode == 0
    of_good, (fault,) = json.loads(ended.stdout)
    assert of_good == []
    assert (fault["where"], fault["allowed"]) == ("raeders", ["readers", "each", "at_once"])
    assert fault["detail"].items() >= {"type": "extra_forbidden", "loc": ["raeders"]}.items()


@pytest.mark.parametrize(
    ("document", "message"),
    [
        ("nonsense", "standard input: document: Invalid JSON"),
        ({"name": "a-1"}, "standard input: kind: Field required"),
        ({"name": "a'b", "kind": "slot", "endpoint": ENDPOINT}, "standard input: name: String should match pattern"),
        ({"name": "a-1", "kind": "other", "endpoint": ENDPOINT}, "document of a-1: kind is 'other'; expected one of"),
        (
            {"name": "a-1", "kind": "slot", "endpoint": ENDPOINT, "options": {"x": 1}},
            "document of a-1: x: unknown key; allowed are type",
        ),
    ],
)
def test_a_bad_document_exits_with_code_2_and_a_reason(document: object, message: str) -> None:
    ended = ask(document=document)
    assert ended.returncode == 2
    assert ended.stdout == ""
    assert ended.stderr.startswith(message)
    assert "Traceback" not in ended.stderr


def test_an_unreachable_server_exits_with_code_3_and_without_the_password() -> None:
    ended = ask(document={"name": "idle_writer-1", "kind": "idle_writer", "endpoint": ENDPOINT})
    assert ended.returncode == 3
    assert ended.stderr.startswith("cannot continue: connection failed")
    assert "hidden" not in ended.stderr and "Traceback" not in ended.stderr
