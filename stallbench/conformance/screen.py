"""The lines that `stallbench conform` prints."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from stallbench.conformance.outcome import PromiseOutcome, Result, decide
from stallbench.errors import EXIT_PASS

_MARKS: dict[Result, str] = {"pass": "pass", "fail": "FAIL", "unknown": "unknown", "info": "info"}
_WIDTH = max(map(len, _MARKS.values()))


def describe_promise(promise: PromiseOutcome) -> str:
    """Return one line."""
    return f"{_MARKS[promise.result]:<{_WIDTH}}  {promise.name}{f': {promise.reason}' if promise.reason else ''}"


def describe_outcome(promises: Sequence[PromiseOutcome], folder: str) -> str:
    """Return the verdict, the number of promises by result, and the path of the ``folder`` with the records."""
    counts = Counter(each.result for each in promises)
    counted = ", ".join(f"{counts[result]} {mark}" for result, mark in _MARKS.items() if counts[result])
    verdict = "PASS" if decide(promises) == EXIT_PASS else "FAIL" if counts["fail"] else "UNKNOWN"
    return f"\n{verdict}  {counted}\nthe records: {folder}"
