"""``python -m ROLE --help`` says what the process reads and who starts it."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
from pydantic import BaseModel

from longrunners.longrunner import LongrunnerDocument
from producers.producer import ProducerDocument
from schedulers.scheduler import SchedulerDocument
from stallbench.engines.collectors.document import CollectorsDocument
from stallbench.injection.maintenance import TaskDocument
from workers.worker import WorkerDocument

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
ROLES: dict[str, type[BaseModel]] = {
    "workers": WorkerDocument,
    "producers": ProducerDocument,
    "schedulers": SchedulerDocument,
    "longrunners": LongrunnerDocument,
    "stallbench.run.sampling": CollectorsDocument,
    "stallbench.injection.maintenance": TaskDocument,
}


def run(module: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run a role without any input."""
    command = [sys.executable, "-m", module, *arguments]
    return subprocess.run(command, input="", capture_output=True, text=True, cwd=ROOT, check=False)


@pytest.mark.parametrize("module", ROLES)
def test_the_help_text_names_the_command_that_starts_the_role_and_every_key_of_its_document(module: str) -> None:
    answer = run(module, "--help")
    assert answer.returncode == 0
    assert f"usage: python -m {module}" in answer.stdout
    assert "`stallbench run` starts this command" in " ".join(answer.stdout.split())
    described = re.findall(r"^  (\w+): \w", answer.stdout, re.MULTILINE)
    assert described == list(ROLES[module].model_fields)


@pytest.mark.parametrize("module", ["workers", "producers", "longrunners"])
def test_a_role_that_joins_a_folder_that_does_not_exist_says_what_is_expected(module: str) -> None:
    answer = run(module, "--join", "/nowhere")
    assert (answer.returncode, answer.stderr.strip()) == (
        2,
        "--join /nowhere: expected one folder: a run's folder, or the folder of all runs",
    )


@pytest.mark.parametrize("module", ["schedulers", "stallbench.run.sampling", "stallbench.injection.maintenance"])
def test_a_role_that_cannot_join_a_run_refuses_to(module: str) -> None:
    answer = run(module, "--join", "/nowhere")
    assert answer.returncode == 2
    assert "unrecognized arguments: --join" in answer.stderr
