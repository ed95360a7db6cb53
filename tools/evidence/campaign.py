"""Measures what is stale or missing, one command after the other, on a quiet machine, and publishes it. A campaign that was killed goes on where it was."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil

from stallbench import PROJECT
from stallbench.base.duration import format_duration
from stallbench.errors import EXIT_FAIL, EXIT_PASS, BadInputError, NotCarriedOutError
from stallbench.evidence.collection import Collection
from stallbench.evidence.publication import publish
from stallbench.evidence.staleness import find_reasons_of_run
from stallbench.run.folder import RUNS, STUDY
from stallbench.run.record import read_record
from tools.evidence.plan import Measurement, find_standing, list_measurements, read_plan

QUIET_PERCENT = 15.0
"""Of all processors: with more in use before a measurement, other programs would delay it."""
_LOOK_S = 5.0
_SHORTEST_S = 300.0
"""A study is not begun or continued for a shorter time: it could not carry out one run."""
_PROGRAM = Path(sys.executable).with_name("stallbench")
_TO_END_S = 120.0
"""How long an interrupted command may take to end its servers."""


def carry_out(within_s: float, say: Callable[[str], None], runs: Path = RUNS) -> None:
    """Measure in order of value until ``within_s`` is over, and publish each result.

    A study that is not finished then, or was interrupted, is continued by the next campaign. Raises `NotCarriedOutError` if other programs use the
    machine.
    """
    deadline_s = time.monotonic() + within_s
    for measurement in list_measurements(read_plan()):
        collection = Collection()
        standing = find_standing(measurement, collection)
        if standing.state == "current" and not standing.busy:
            continue
        if name := _find_finished(measurement, runs):
            _publish(name, runs, collection, say)
            continue
        left_s = deadline_s - time.monotonic()
        is_long = measurement.entry.minutes * 60 > left_s
        if left_s < _SHORTEST_S or (is_long and measurement.entry.study == "run"):
            say(f"not begun, because {format_duration(round(max(0.0, left_s)))} are left: {measurement.command}")
            return
        require_quiet()
        _measure(measurement, runs, left_s, say)
        if name := _find_finished(measurement, runs):
            _publish(name, runs, collection, say)


def require_quiet() -> None:
    """Raise `NotCarriedOutError` if other programs use the machine."""
    percent = psutil.cpu_percent(interval=_LOOK_S)
    if percent > QUIET_PERCENT:
        raise NotCarriedOutError(
            f"the machine is not quiet: {percent:.0f} % of its processors were in use for {_LOOK_S:.0f} s; at most {QUIET_PERCENT:.0f} % may be. "
            "End the other programs, and run this again: what is done is published"
        )


def _measure(measurement: Measurement, runs: Path, left_s: float, say: Callable[[str], None]) -> None:
    """Carry out the command, or continue it, for at most ``left_s``. Raises `NotCarriedOutError` if it could not be carried out."""
    unfinished = next(_find_studies(measurement, runs, {"running", "aborted", "failed"}), None)
    words = measurement.words
    if unfinished is not None:
        words = [measurement.entry.study, "--continue", str(unfinished)]
        if measurement.entry.study in ("compare", "matrix"):
            words += ["--repeat", str(measurement.entry.rounds)]
    say(" ".join(["stallbench", *words]))
    with subprocess.Popen([str(_PROGRAM), *words, "--runs", str(runs)], cwd=PROJECT) as process:
        try:
            code = process.wait(timeout=left_s)
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGINT)
            process.wait(timeout=_TO_END_S)
            say("the time is over; the next campaign continues it")
            return
    if code not in (EXIT_PASS, EXIT_FAIL):
        raise NotCarriedOutError(f"exit code {code}: {measurement.command}")


def _find_finished(measurement: Measurement, runs: Path) -> str | None:
    """Return the newest completed and current run or study of this measurement among the runs on this machine; none if there is none."""
    if measurement.entry.study != "run":
        found = next(_find_studies(measurement, runs, {"completed"}), None)
        return found.name if found and _is_current_study(found, runs) else None
    for path in sorted(runs.glob("*/run.json"), reverse=True):
        try:
            record = read_record(path)
        except BadInputError:  # of another format
            continue
        if record.status == "completed" and measurement.is_of_run(record) and not find_reasons_of_run(record):
            return path.parent.name
    return None


def _is_current_study(folder: Path, runs: Path) -> bool:
    record = json.loads((folder / STUDY).read_text())
    where = runs if record["kind"] == "comparison" else folder
    paths = [where / run["folder"] / "run.json" for run in record["runs"] if run.get("folder") and run["status"] == "completed"]
    return bool(paths) and not any(find_reasons_of_run(read_record(path)) for path in paths)


def _find_studies(measurement: Measurement, runs: Path, statuses: set[str]) -> Iterator[Path]:
    """Yield the folders of studies of this measurement, the newest first."""
    for path in sorted(runs.glob(f"*/{STUDY}"), reverse=True):
        record = json.loads(path.read_text())
        if record["status"] in statuses and measurement.is_of_study(record["kind"], record):
            yield path.parent


def _publish(name: str, runs: Path, collection: Collection, say: Callable[[str], None]) -> None:
    try:
        paths = publish(name, runs, collection.folder)
    except BadInputError as error:
        say(f"not published: {error}")
    else:
        say(f"published: {', '.join(path.name for path in paths)}")
