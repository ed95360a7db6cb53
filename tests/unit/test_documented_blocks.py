"""Every fenced block of every page is run by a test, or checked by its kind; a block of no kind fails.

Bash runs a block in ``sh`` with stand-ins for all programs: each program, command, option, scenario and file that it names has to exist. ``toml``
is validated as the file that it is a part of, ``json`` as the document of a longrunner, what a webhook posts, or the configuration of a program
that starts `observe mcp`. `RUN_BY` names the tests that run what is in ``python``;
``diff`` is applied and run by `test_documented_diffs.py` and the tests of each page; ``text`` is what a program printed.
"""

from __future__ import annotations

import ast
import configparser
import importlib.util
import json
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import typer
import yaml

from longrunners.longrunner import LongrunnerDocument
from longrunners.validation import Choice, find_issues
from stallbench import PROJECT
from stallbench.cli import app
from stallbench.libraries import find_library
from stallbench.libraries.definition import read_library
from stallbench.observe.expectations import read_expectations
from stallbench.observe.webhook import Notice
from stallbench.queues import find_queue
from stallbench.queues.library_queue import load_library_queue
from stallbench.queues.user_queue import load_queue
from stallbench.scenario.file import read_scenario, read_variants
from stallbench.scenario.model import CONTROL
from stallbench.setup.server_programs import SERVER_COMPONENTS
from tests import documented_diff
from tests.documented_blocks import PAGES, Block, read_blocks
from tests.libraries.made_up import make_application

pytestmark = pytest.mark.slow

APPLICATION = "tests/unit/test_own_application.py::test_the_page_shows_the_files_that_are_tested"
RUN_BY = {
    ("docs/ci.md", "def test_no_job_waits_long"): "tests/end_to_end/test_documented_tests.py::test_the_first_example_passes",
    ("docs/ci.md", "def test_the_queue_survives"): "tests/end_to_end/test_documented_tests.py::test_the_second_example_passes",
    ("docs/ci.md", "pytestmark ="): "tests/end_to_end/test_documented_tests.py::test_the_marker_gives_the_arguments",
    ("docs/test-my-application.md", '"""A shop'): APPLICATION,
    ("docs/test-my-application.md", '"""Runs the shop'): APPLICATION,
}
"""The test that runs a block in Python, by its page and its beginning."""

BLOCKS = [block for page in PAGES for block in read_blocks(page)]


@pytest.fixture(scope="module")
def reader(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The folder of a reader, who has what the pages speak of: a scenario, a queue, an application."""
    folder = tmp_path_factory.mktemp("reader")
    make_application(folder)
    example = PROJECT / "examples" / "first-project"
    shutil.copytree(example, folder / "bench", ignore=shutil.ignore_patterns("__pycache__"))
    for file in example.iterdir():
        if file.is_file():  # and no folder of bytecode
            shutil.copy(file, folder)
    (folder / "app").mkdir()
    for suffix in ("py", "sql"):
        shutil.copy(example / f"my_queue.{suffix}", folder / "app" / f"queue.{suffix}")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.setattr(sys, "path", [*sys.path])  # a file with a queue can import what is beside it
        yield folder
    for found_by_relative_path in (find_library, find_queue, load_library_queue, load_queue):
        found_by_relative_path.cache_clear()


@pytest.mark.parametrize("block", BLOCKS, ids=str)
def test_a_block_is_right(block: Block, reader: Path, tmp_path: Path) -> None:
    assert block.language in CHECKS, f"{block}: say what it is: {', '.join(CHECKS)}"
    CHECKS[block.language](block, tmp_path)


def check_python(block: Block, folder: Path) -> None:
    compile(block.text, str(block), "exec")
    tests = [test for (page, beginning), test in RUN_BY.items() if page == block.page and block.text.startswith(beginning)]
    assert len(tests) == 1, f"RUN_BY has to name the test that runs {block}"
    (test,) = tests
    file, _, name = test.partition("::")
    defined = {node.name for node in ast.parse((PROJECT / file).read_text()).body if isinstance(node, ast.FunctionDef)}
    assert name in defined, f"there is no {test}, which runs {block}"


def check_diff(block: Block, folder: Path) -> None:
    assert Path(block.page).name in documented_diff.PAGES, "no test applies it"


def check_json(block: Block, folder: Path) -> None:
    match json.loads(block.text):
        case {"mcpServers": servers}:
            for server in servers.values():
                PROGRAMS[server["command"]](server["args"], set())
        case {"event": _}:
            Notice.model_validate_json(block.text)
        case _:
            document = LongrunnerDocument.model_validate_json(block.text)
            assert not find_issues(Choice(kind=document.kind, engine=document.endpoint.engine, options=document.options))


def check_ini(block: Block, folder: Path) -> None:
    """A unit of systemd: what it starts is a command."""
    unit = configparser.ConfigParser()
    unit.read_string(block.text)
    program, *words = shlex.split(unit["Service"]["ExecStart"])
    PROGRAMS[Path(program).name](words, set())


def check_yaml(block: Block, folder: Path) -> None:
    """A file of Compose, whose services are of the image of `stallbench observe`."""
    for service in yaml.safe_load(block.text)["services"].values():
        assert service["image"] == "stallbench-observe"
        check_stallbench(["observe", *shlex.split(service["command"])], set())


HEAD = """
summary = "What is around a part."
producers.rate = 10
[queue]
kind = "que"
"""
PHASES = "".join(f'[[phases]]\nname = "{name}"\nduration = "1h"\n' for name in ("backlog", "drain"))
COMPARISON = '[comparison]\nmetric = "completed.rate"\nbetter = "higher"\n'


def check_toml(block: Block, folder: Path) -> None:
    """As a whole scenario, a definition of a library, expectations of an observation, or a part of a scenario."""
    content = tomllib.loads(block.text)
    path = folder / ("library.toml" if "language" in content else "part.toml")
    path.write_text(block.text)
    match content:
        case {"language": _}:
            read_library(path)
        case {"summary": _, "phases": _}:
            assert_valid(path)
        case {"expect": _}:
            read_expectations(path)
        case _:
            path.write_text(surround(block.text, content))
            assert_valid(path)


def surround(part: str, content: dict[str, Any]) -> str:
    """Return a scenario with a part of one in its place."""
    match content:
        case {"phases": _}:
            return HEAD + part
        case {"faults": _}:
            return HEAD + PHASES + part  # of the last phase
        case {"columns": _}:
            return HEAD + PHASES + COMPARISON + part
        case {"comparison": {"published": published}}:
            named = {name for table in published.values() for name in table} - {CONTROL}
            return HEAD + PHASES + part + "".join(map(make_variant, named))
        case {"variants": {**variants}}:
            whole = re.sub(r"^\[variants\.\w+\]\n", r'\g<0>summary = "One."\n', part, flags=re.MULTILINE)
            others = set(re.findall(r'reference = "(\w+)"', part)) - set(variants)
            return HEAD + PHASES + COMPARISON + whole + "".join(map(make_variant, others))
        case {"producers": _}:
            return HEAD.replace("producers.rate = 10\n", "") + PHASES + part
    pytest.fail(f"this is no part of a scenario that the test knows: {list(content)}")


def make_variant(name: str) -> str:
    return f'[variants.{name}]\nsummary = "Another."\nworkers.count = 2\n'


def assert_valid(path: Path) -> None:
    for variant in (None, *read_variants(path)):
        assert read_scenario(str(path), variant=variant).phases


RECORD = """#!/bin/bash
printf -v line '%s\\x1f' "${0##*/}" "$@"
printf '%s\\n' "$line" >> "$RECORD"
"""
"""In place of every program: it notes its own name and its arguments."""
UNKNOWN = 'command_not_found_handle() { echo "$1" >> "$RECORD"; }\n'


def check_sh(block: Block, folder: Path) -> None:
    """Bash runs it, with stand-ins for all programs; then each command that it called is checked."""
    programs = folder / ".venv" / "bin"
    programs.mkdir(parents=True)
    for name in PROGRAMS:
        (programs / name).write_text(RECORD)
        (programs / name).chmod(0o755)
    record = folder / "record"
    environment = {"PATH": str(programs), "RECORD": str(record), "HOME": str(folder)}
    ended = subprocess.run(
        ["/bin/bash", "-c", f"{UNKNOWN}{block.text}\nwait"],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert "syntax error" not in ended.stderr, ended.stderr
    written: set[str] = set()
    for line in record.read_text().splitlines():
        name, *words = line.removesuffix("\x1f").split("\x1f")
        assert name in PROGRAMS, f"{name}: no check of this test knows it"
        PROGRAMS[name](words, written)
    read = {component.override for component in SERVER_COMPONENTS.values()}
    for variable in set(re.findall(r"\b(STALLBENCH_\w+)=", block.text)) - read:
        found = subprocess.run(["grep", "-rqw", variable, "stallbench", "docker-compose.yml"], cwd=PROJECT, check=False)
        assert found.returncode == 0, f"nothing reads {variable}"


@cache
def make_command_line() -> Any:
    """Return the whole command line, which takes a fifth of a second to make."""
    return typer.main.get_command(app)


def check_stallbench(words: Sequence[str], written: set[str]) -> None:
    """Parse the command as the command line does; where it names a scenario, read this as the command does."""
    command = make_command_line()
    rest = list(words)
    while hasattr(command, "commands") and (rest or not command.invoke_without_command):
        assert rest[:1] and rest[0] in command.commands, f"there is no command {' '.join(rest[:1])}"
        command, rest = command.commands[rest[0]], rest[1:]
    given = command.make_context(command.name, rest).params
    scenario = given.get("scenario")
    if command.name in SCENARIO_COMMANDS and scenario and scenario not in written:
        for variant in (given.get("variant") or given.get("variants") or "").split(","):
            read_scenario(scenario, variant=variant if variant not in ("", CONTROL) else None, overrides=given["set_"] or ())
    written |= {f"./{given[name]}" for name in ("output", "record_profile") if given.get(name)}


SCENARIO_COMMANDS = ("run", "show", "compare", "soak", "limit", "matrix")


def check_python_program(words: Sequence[str], written: set[str]) -> None:
    option, module, *rest = words[1:] if words[0] == "-P" else words
    assert option == "-m", words
    found = importlib.util.find_spec(module)
    assert found and found.origin, f"there is no module {module}"
    own = Path(found.origin)
    place = own.parent if own.name == "__init__.py" else own
    assert_options_are_in(
        rest, place, PROJECT / "stallbench" / "processes", PROJECT / "stallbench" / "queues", PROJECT / "longrunners"
    )


def check_locust(words: Sequence[str], written: set[str]) -> None:
    locust = importlib.util.find_spec("locust")
    assert locust is not None and locust.origin is not None
    assert words[:1] == ["-f"]
    assert (PROJECT / words[1]).is_file()
    assert_options_are_in(words[2:], PROJECT / "producers", Path(locust.origin).with_name("argument_parser.py"))


def assert_options_are_in(words: Sequence[str], *places: Path) -> None:
    files = [file for place in places for file in (place.glob("*.py") if place.is_dir() else [place])]
    code = "".join(file.read_text() for file in files)
    assert not [word for word in words if word.startswith("--") and f'"{word}"' not in code]


def check_docker(words: Sequence[str], written: set[str]) -> None:
    """The files exist; so do the services of ``docker compose``, in one of the files that it is given."""
    files = [word for option, word in pairwise(words) if option in ("-f", "--file")]
    assert not [file for file in files if not (PROJECT / file).is_file()]
    if words[0] == "compose":
        services = {
            name for file in files or ["docker-compose.yml"] for name in yaml.safe_load((PROJECT / file).read_text())["services"]
        }
        (at,) = [place for place, word in enumerate(words) if word in ("up", "start", "wait", "down")]
        named = [word.partition("=")[0] for word in words[at + 1 :] if not word.startswith("-")]
        assert not set(named) - services - {"worker"}


def check_files(words: Sequence[str], written: set[str]) -> None:
    """What is named of this project exists."""
    own = [
        word.removeprefix("path/to/clone/")
        for word in words
        if re.match(r"(path/to/clone/)?(requirements|containers|tests)/", word)
    ]
    assert not [file for file in own if not (PROJECT / file).exists()]


def check_make(words: Sequence[str], written: set[str]) -> None:
    assert re.search(rf"^{words[0]}:", (PROJECT / "Makefile").read_text(), re.MULTILINE), f"make has no target {words[0]}"


def check_nohup(words: Sequence[str], written: set[str]) -> None:
    PROGRAMS[words[0]](words[1:], written)


def of_the_system(words: Sequence[str], written: set[str]) -> None:
    """Nothing of it is this project's."""


PROGRAMS: dict[str, Callable[[Sequence[str], set[str]], None]] = {
    "stallbench": check_stallbench,
    "python": check_python_program,
    "locust": check_locust,
    "docker": check_docker,
    "make": check_make,
    "nohup": check_nohup,
    **dict.fromkeys(("pip", "pytest", "kubectl"), check_files),
    **dict.fromkeys(("apt-get", "chmod", "jq", "mkdir", "mvn", "python3", "sleep", "tar", "unzip"), of_the_system),
}
CHECKS: dict[str, Callable[[Block, Path], None]] = {
    "sh": check_sh,
    "toml": check_toml,
    "json": check_json,
    "python": check_python,
    "diff": check_diff,
    "ini": check_ini,
    "yaml": check_yaml,
    "text": lambda block, folder: None,
}
