"""A small valid scenario, and how tests read changed copies of it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from longrunners.validation import Choices, find_issues
from stallbench.queues import find_queues
from stallbench.scenario.file import ScenarioError, read_scenario
from stallbench.scenario.longrunner_issue import LongrunnerIssue
from stallbench.scenario.model import Scenario

ALL_KEYS = (
    "summary, subject, seed, database, queue, producers, workers, external_processes, collectors, bystander, maintenance, "
    "phases, expect, require, judge, comparison, mitigation, judged_by"
)
"""The keys of a scenario file, as an error lists them."""
OF_POSTGRES = ", ".join(kind for kind, queue in find_queues().items() if "postgres" in queue.engines)
"""The queues that a scenario on PostgreSQL may have, as an error lists them."""
SMALL = """\
summary = "A small one."

[database]
replicas = 1
settings = { autovacuum_naptime = "5s" }

[queue]
kind = "que"

[producers]
rate = 500

[workers]
count = 2
work = "1ms"

[[phases]]
name = "warmup"
duration = "1s"
measured = false

[[phases]]
name = "baseline"
duration = "5s"

[[phases]]
name = "longtx"
duration = "10s"
longrunners = [{ kind = "idle_writer", on = "primary" }]

[[expect]]
metric = "claim_ms.p95"
phase = "longtx"
relative_to = "baseline"
at_least = 5
"""


def ask_longrunners_here(questions: str) -> list[list[LongrunnerIssue]]:
    """Answer as ``python -m longrunners --check`` does, without the quarter of a second that a process takes."""
    answers = [find_issues(choice) for choice in Choices.model_validate_json(questions).root]
    return [[LongrunnerIssue.model_validate_json(issue.model_dump_json()) for issue in issues] for issues in answers]


def write(folder: Path, text: str, name: str = "small.toml") -> Path:
    """Write a scenario's file and return its path."""
    path = folder / name
    path.write_text(text)
    return path


def read(folder: Path, text: str, *, variant: str | None = None, overrides: Sequence[str] = ()) -> Scenario:
    """Read ``text`` as a scenario's file."""
    return read_scenario(str(write(folder, text)), variant=variant, overrides=overrides)


def find_lines(folder: Path, text: str, *, variant: str | None = None, overrides: Sequence[str] = ()) -> list[str]:
    """Return the lines that the user gets for ``text``, without the file's name, with which each must begin."""
    with pytest.raises(ScenarioError) as raised:
        read(folder, text, variant=variant, overrides=overrides)
    start = f"{folder / 'small.toml'}: "
    assert all(line.startswith(start) for line in raised.value.issues)
    assert str(raised.value) == "\n".join(raised.value.issues)
    assert not any("\n" in line for line in raised.value.issues)
    return [line.removeprefix(start) for line in raised.value.issues]
