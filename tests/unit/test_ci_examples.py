"""The workflows in examples/ci call commands and options that exist, and keep the files that these write."""

from __future__ import annotations

import os
import re
import subprocess
import sys

import pytest
import yaml
from typer.testing import CliRunner

from stallbench import PROJECT
from stallbench.cli import app

pytestmark = pytest.mark.slow

CI = PROJECT / "examples" / "ci"


def read_commands(name: str) -> list[str]:
    content = yaml.safe_load((CI / name).read_text())
    if "jobs" in content:
        parts = [step["run"] for step in content["jobs"]["queue"]["steps"] if "run" in step]
    else:
        parts = [*content["queue"]["before_script"], *content["queue"]["script"]]
    return [line.strip() for part in parts for line in part.replace("\\\n", " ").splitlines()]


@pytest.fixture(scope="module")
def pytest_help() -> str:
    environment = {**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTHONPATH": str(PROJECT)}
    command = [sys.executable, "-m", "pytest", "-p", "stallbench.testing.plugin", "--help"]
    return subprocess.run(command, capture_output=True, text=True, check=True, env=environment).stdout


@pytest.mark.parametrize("name", ["github-actions.yml", "gitlab-ci.yml"])
def test_the_commands_and_options_exist(name: str, pytest_help: str) -> None:
    commands = read_commands(name)
    (tests,) = [command for command in commands if "-m pytest" in command]
    options = re.findall(r"--[\w-]+", tests)
    assert "--stallbench-reports" in options
    assert not [option for option in options if option not in pytest_help]
    called = [words for command in commands for words in re.findall(r"bin/stallbench (\w+)", command)]
    assert called == ["setup"]
    assert CliRunner().invoke(app, [*called, "--help"]).exit_code == 0


@pytest.mark.parametrize("name", ["github-actions.yml", "gitlab-ci.yml"])
def test_the_files_that_are_kept_are_those_that_the_tests_write(name: str) -> None:
    text = (CI / name).read_text()
    (tests,) = [command for command in read_commands(name) if "-m pytest" in command]
    for file in re.findall(r"--(?:junit-xml|stallbench-reports)=([\w.-]+)", tests):
        assert re.search(rf"^\s+(?:- |junit: )?{re.escape(file)}$", text, re.MULTILINE), file
