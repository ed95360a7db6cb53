"""How a process of an adapter in Go runs an earlier version of the library: a program contains one version, so that of the earlier one goes on."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.libraries.probes import PROBES
from tests.libraries.test_contract import make_job

pytestmark = pytest.mark.integration

OPTIONS = {"version": "1.0.0", "upgrade_to": "2.0.0"}
BATCH = {"jobs": [make_job(1, "full")]}


@pytest.fixture
def library(tmp_path: Path) -> Path:
    """A library with an earlier version, whose program says what it is, and then does what the newest one does."""
    folder = tmp_path / "library"
    folder.mkdir()
    (probe,) = PROBES["go"]().argv
    shutil.copy(probe, folder / "adapter")
    (folder / "earlier-1.0.0").write_text(f'#!/bin/sh\necho \'{{"earlier": "\'"$*"\'"}}\'\nexec {folder}/adapter "$@"\n')
    (folder / "earlier-1.0.0").chmod(0o755)
    return folder


def execute(library: Path, *arguments: str, **document: object) -> list[dict[str, Any]]:
    """Start the newest version with a document and a batch, which are there at once; returns its messages."""
    content = {"name": "worker-1", "events": str(library / "events.csv"), "work_s": 0, "job_faults": str(library), **document}
    ended = subprocess.run(
        [str(library / "adapter"), *arguments],
        input=f"{json.dumps(content)}\n{json.dumps(BATCH)}\n",
        env={"STALLBENCH_LIBRARY": str(library)},
        capture_output=True,
        text=True,
        check=True,
    )
    return [json.loads(line) for line in ended.stdout.splitlines()]


OF_PROBE = [{"ready": {}}, {"ready": {}}, {"refused": "the queue is full"}]
"""The probe is a worker and a producer in one, so it is ready twice."""


def test_the_program_of_the_earlier_version_gets_the_verb_the_document_and_the_batches(library: Path) -> None:
    assert execute(library, "work", queue_options=OPTIONS) == [{"earlier": "work"}, *OF_PROBE]


@pytest.mark.parametrize(
    ("verb", "document"),
    [
        ("migrate", {"queue_options": OPTIONS}),
        ("work", {"queue_options": OPTIONS, "upgraded": True}),
        ("work", {"queue_options": OPTIONS | {"version": "2.0.0"}}),
        ("work", {"queue_options": {}}),
        ("work", {}),
    ],
    ids=["a migration", "a worker after it", "the newest", "a library with one version", "a document without options"],
)
def test_the_newest_version_has_no_other_program(library: Path, verb: str, document: dict[str, object]) -> None:
    assert execute(library, verb, **document) == OF_PROBE


def test_a_migration_to_a_version_that_is_not_the_newest_has_its_program(library: Path) -> None:
    options = {"version": "0.9.0", "upgrade_to": "1.0.0"}
    assert execute(library, "migrate", queue_options=options)[0] == {"earlier": "migrate"}
