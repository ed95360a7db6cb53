"""``action.yml``, the action for GitHub: its inputs are all used, and its last step runs what they say."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from stallbench import PROJECT

ACTION = PROJECT / "action.yml"
STUB = """#!/bin/sh
echo "stallbench $*"
previous=
for each; do
  if [ "$previous" = --runs ]; then mkdir -p "$each/latest"; echo "the summary" > "$each/latest/summary.md"; fi
  previous=$each
done
exit ${STUB_EXIT:-0}
"""


@pytest.fixture(scope="module")
def action() -> dict[str, Any]:
    content: dict[str, Any] = yaml.safe_load(ACTION.read_text())
    return content


def run_last_step(
    action: dict[str, Any], folder: Path, *, stub_exit: int = 0, **inputs: str
) -> tuple[subprocess.CompletedProcess[str], str]:
    """Run the last step as GitHub does, with a stub in the place of the bench; returns what it printed, and the page's summary."""
    program = folder / "stallbench" / "bin" / "stallbench"
    program.parent.mkdir(parents=True)
    program.write_text(STUB)
    program.chmod(0o755)
    summary = folder / "summary.md"
    summary.touch()
    given = {name: inputs.get(name, each["default"]) for name, each in action["inputs"].items()}
    *_, step = action["runs"]["steps"]
    own = {name: given[value.removeprefix("${{ inputs.").removesuffix(" }}")] for name, value in step["env"].items()}
    of_github = {"RUNNER_TEMP": str(folder), "GITHUB_STEP_SUMMARY": str(summary), "PATH": os.environ["PATH"]}
    ended = subprocess.run(
        ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", step["run"]],
        env={**of_github, **own, "STUB_EXIT": str(stub_exit)},
        capture_output=True,
        text=True,
        check=False,
    )
    return ended, summary.read_text()


def test_it_is_a_composite_action_that_uses_each_input(action: dict[str, Any]) -> None:
    assert action["runs"]["using"] == "composite"
    assert all(step["shell"] == "bash" for step in action["runs"]["steps"])
    assert set(re.findall(r"inputs\.(\w+)", ACTION.read_text())) == set(action["inputs"])
    assert not [step["name"] for step in action["runs"]["steps"] if "${{" in step["run"]], "an input is a value, and never code"


@pytest.mark.parametrize(("lock", "sets_up"), [("light", False), ("python", True)])
def test_it_installs_only_what_is_locked_by_hash(action: dict[str, Any], tmp_path: Path, lock: str, sets_up: bool) -> None:
    called = tmp_path / "called"
    python = tmp_path / "python"
    python.write_text(
        '#!/bin/sh\nfolder="$3/bin"; mkdir -p "$folder"\n'
        f'for each in pip stallbench; do printf \'#!/bin/sh\\necho "$0 $*" >> {called}\\n\' > "$folder/$each"; chmod +x "$folder/$each"; done\n'
    )
    python.chmod(0o755)
    first, _ = action["runs"]["steps"]
    given = {
        "LOCK": lock,
        "PYTHON": str(python),
        "SOURCE": str(PROJECT),
        "RUNNER_TEMP": str(tmp_path),
        "PATH": os.environ["PATH"],
    }
    assert given.keys() >= first["env"].keys()
    subprocess.run(["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", first["run"]], env=given, check=True)
    locked, own, *others = called.read_text().splitlines()
    assert "--require-hashes" in locked
    assert re.findall(r"--requirement (\S+)", locked) == [f"{PROJECT}/requirements/{each}.lock" for each in (lock, "build")]
    assert own.endswith(f"--no-deps --no-build-isolation {PROJECT}")
    assert [each.split("/")[-1] for each in others] == (["stallbench setup"] if sets_up else [])


def test_a_scenario_is_run_and_its_summary_is_shown_whatever_its_verdict(action: dict[str, Any], tmp_path: Path) -> None:
    ended, summary = run_last_step(action, tmp_path, stub_exit=1, scenario="longtx", arguments="--variant skip_locked")
    assert ended.returncode == 1
    assert ended.stdout == f"stallbench run longtx --runs {tmp_path}/stallbench-runs --variant skip_locked\n"
    assert summary == "the summary\n"


def test_without_a_scenario_a_server_is_observed_once_unless_a_time_is_given(action: dict[str, Any], tmp_path: Path) -> None:
    ended, summary = run_last_step(action, tmp_path / "once", dsn="postgresql://a@b/c")
    assert (ended.returncode, summary) == (0, "<pre>\nstallbench observe --dsn postgresql://a@b/c --once\n</pre>\n")
    ended, summary = run_last_step(action, tmp_path / "for", stub_exit=3, dsn="postgresql://a@b/c", arguments="--for 1m --all")
    assert (ended.returncode, summary) == (3, "<pre>\nstallbench observe --dsn postgresql://a@b/c --for 1m --all\n</pre>\n")


def test_what_a_server_says_is_no_command_of_the_log_and_no_markup_of_the_summary(action: dict[str, Any], tmp_path: Path) -> None:
    hostile = "</pre>![t](https://evil.test/t.png)<img src=x>&amp;"
    ended, summary = run_last_step(action, tmp_path, dsn=hostile)
    begin, *report, end = ended.stdout.splitlines()
    token = begin.removeprefix("::stop-commands::")
    assert (len(token), end) == (32, f"::{token}::")
    assert hostile in "\n".join(report)
    assert "&lt;/pre&gt;![t](https://evil.test/t.png)&lt;img src=x&gt;&amp;amp;" in summary
    assert summary.count("<") == 2, "of the block itself, in which nothing is Markdown"


def test_neither_is_bad_input(action: dict[str, Any], tmp_path: Path) -> None:
    ended, _ = run_last_step(action, tmp_path)
    assert ended.returncode == 2
    assert "give the input scenario, or the input dsn" in ended.stderr
