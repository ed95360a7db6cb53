"""``run.json``: what was run, on what, when, and how it ended; written at the start and replaced whole at each change."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import psutil
from pydantic import BaseModel

import stallbench
from stallbench.atomic_file import replace_file
from stallbench.queues import find_queue
from stallbench.queues.queue import OptionRole
from stallbench.run.host_facts import read_host_facts, read_library_versions
from stallbench.scenario.model import Scenario
from stallbench.scenario.sections import Phase


class RunRecord:
    """The record of one run, as docs/run-folder.md describes it."""

    def __init__(self, path: Path, scenario: Scenario) -> None:
        """Write the record of a run that is about to start."""
        self._path = path
        self._parts: dict[str, Callable[[], Sequence[BaseModel | dict[str, Any]]]] = {}
        queue = find_queue(scenario.queue.kind)
        options = queue.resolve_options(queue.options_type.model_validate(scenario.queue.options), workers=scenario.workers.count)
        self._record: dict[str, Any] = {
            "format": 1,
            "id": path.parent.name,
            "status": "running",
            "reason": "",
            "bench": describe_bench(),
            "seed": scenario.seed,
            "scenario": scenario.model_dump(mode="json"),
            "queue": {
                "kind": scenario.queue.kind,
                "options": options.model_dump(mode="json"),
                "promise": queue.promise,
                "ordered": queue.ordered,
                "advisory_locks": queue.count_advisory_locks(options),
                "claims_survive_connection": queue.claims_survive_connection,
                "expiry_s": options.value_of(OptionRole.EXPIRY),
                "attempt_limit": options.value_of(OptionRole.ATTEMPT_LIMIT),
                "window": options.value_of(OptionRole.WINDOW),
                "rescues_jobs": queue.rescues_jobs,
                "tables": queue.tables,
                "indexes": queue.indexes,
                "summary": queue.summary,
                "source": queue.source,
            },
            "versions": read_library_versions(),
            "host": read_host_facts(),
            "servers": [],
            "phases": _plan(scenario.phases),
            "injections": [],
            "processes": [],
            "notes": [],
        }
        self.write()

    def __getitem__(self, key: str) -> Any:
        return self._record[key]

    def follow(self, key: str, read: Callable[[], Sequence[BaseModel | dict[str, Any]]]) -> None:
        """Take the list ``key`` anew from ``read`` at each write."""
        self._parts[key] = read

    def note(self, sentence: str) -> None:
        """Add a sentence that the report must show."""
        if sentence not in self._record["notes"]:
            self._record["notes"].append(sentence)
            self.write()

    def begin_phase(self, index: int) -> None:
        """Say that phase ``index`` starts now."""
        self._record["phases"][index]["start_ns"] = time.time_ns()
        self.write()

    def end_phase(self, index: int) -> None:
        """Say that phase ``index`` ends now."""
        self._record["phases"][index]["end_ns"] = time.time_ns()
        self.write()

    def end(self, status: str, reason: str = "") -> None:
        """Say how the run ended: ``completed``, ``aborted`` or ``failed``."""
        self._record["status"], self._record["reason"] = status, reason
        self.write()

    def write(self) -> None:
        """Replace the file; a reader sees the old record or the new one, never a part."""
        for key, read in self._parts.items():
            self._record[key] = [each.model_dump(mode="json") if isinstance(each, BaseModel) else each for each in read()]
        replace_file(self._path, json.dumps(self._record, indent=1))


def describe_bench() -> dict[str, Any]:
    """Return which process of which version writes a record, by which others can tell whether it still lives."""
    return {
        "version": stallbench.__version__,
        "pid": os.getpid(),
        "process_started_s": psutil.Process().create_time(),
    }


def read_record(path: Path) -> Mapping[str, Any]:
    """Read a run's record back."""
    record: Mapping[str, Any] = json.loads(path.read_text())
    return record


def _plan(phases: tuple[Phase, ...]) -> list[dict[str, Any]]:
    planned: list[dict[str, Any]] = []
    start_s = 0.0
    for phase in phases:
        planned.append(
            {
                "name": phase.name,
                "measured": phase.measured,
                "planned_start_s": start_s,
                "planned_duration_s": phase.duration_s,
                "start_ns": None,
                "end_ns": None,
            }
        )
        start_s += phase.duration_s
    return planned
