"""The result for each promise of a queue: what `stallbench conform` prints of it, and the files that contain it, ``conformance.json`` and JUnit."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from junitparser import TestSuite

from stallbench.base.storage.atomic_file import replace_file
from stallbench.errors import EXIT_FAIL, EXIT_PASS
from stallbench.report.junit import make_case, write_suites
from stallbench.studies.torture.outcome import PROMISES, RESULTS, TortureOutcome
from stallbench.verdicts.check import WORST_FIRST, Result

_MARKS: dict[Result, str] = {"pass": "pass", "fail": "FAIL", "unknown": "unknown", "info": "info"}
_WIDTH = max(map(len, _MARKS.values()))
RECORD = "conformance.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class PromiseOutcome:
    """One promise: ``info`` if the queue does not give it."""

    name: str
    result: Result
    reason: str = ""


def summarise_torture(outcome: TortureOutcome) -> list[PromiseOutcome]:
    """Return one outcome for each promise, over all crash points: its worst, and where that was."""
    found = []
    for check, title in PROMISES.items():
        name = f"{title}, at every crash point"
        results = {f"{each.trial.point} ({each.trial.action})": RESULTS[each.state_of(check)] for each in outcome.trials}
        worst: Result = min(results.values(), key=WORST_FIRST.index, default="unknown")
        where = ", ".join(point for point, result in results.items() if result == worst)
        begins = ("not tried: ", f"{title}: ") if worst == "unknown" else (f"{title}: ",)
        known = (*(reason for each in outcome.trials for reason in each.reasons), *outcome.undecided)
        reasons = [reason for reason in known if reason.startswith(begins)]
        if worst == "pass":
            where = f"at {sum(result == 'pass' for result in results.values())} points"
        elif worst == "info":
            where = "it is not promised"
        found.append(PromiseOutcome(name=name, result=worst, reason="; ".join([where, *reasons[:1]])))
    others = [text for text in outcome.undecided if not text.startswith(tuple(f"{title}: " for title in PROMISES.values()))]
    if outcome.elsewhere or others:
        result: Result = "fail" if outcome.elsewhere else "unknown"
        found.append(PromiseOutcome(name="nothing else is wrong", result=result, reason="; ".join([*outcome.elsewhere, *others])))
    return found


def not_all_tried(why: str) -> PromiseOutcome:
    """Return what a record has in place of the promises that were not tried, so that it is not taken for a whole one."""
    return PromiseOutcome(name="every promise was tried", result="unknown", reason=why)


def decide(promises: Sequence[PromiseOutcome]) -> int:
    """Return the exit code: 0 if every promise holds or is not given."""
    return EXIT_PASS if all(each.result in ("pass", "info") for each in promises) else EXIT_FAIL


def describe_promise(promise: PromiseOutcome) -> str:
    """Return one line."""
    return f"{_MARKS[promise.result]:<{_WIDTH}}  {promise.name}{f': {promise.reason}' if promise.reason else ''}"


def describe_outcome(promises: Sequence[PromiseOutcome], folder: str) -> str:
    """Return the verdict, the number of promises by result, and the path of the ``folder`` with the records."""
    counts = Counter(each.result for each in promises)
    counted = ", ".join(f"{counts[result]} {mark}" for result, mark in _MARKS.items() if counts[result])
    verdict = "PASS" if decide(promises) == EXIT_PASS else "FAIL" if counts["fail"] else "UNKNOWN"
    return f"\n{verdict}  {counted}\nthe records: {folder}"


def write_record(folder: Path, queue: str, engine: str, seed: int, promises: Sequence[PromiseOutcome]) -> None:
    """Write ``conformance.json`` and ``junit.xml`` into ``folder``."""
    record = {"format": 1, "queue": queue, "engine": engine, "seed": seed, "promises": [asdict(each) for each in promises]}
    replace_file(folder / RECORD, json.dumps(record, indent=1))
    write_junit(folder / "junit.xml", queue, promises)


def write_junit(path: Path, queue: str, promises: Sequence[PromiseOutcome]) -> None:
    """Write one case for each promise."""
    suite = TestSuite("stallbench.conform")
    for each in promises:
        suite.add_testcase(make_case(each.name, f"conform.{queue}", each.result, each.reason))
    write_suites(path, [suite])
