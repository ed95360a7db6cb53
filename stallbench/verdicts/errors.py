"""Did operations end in errors that nothing explains?"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from typing import Any

import pandas as pd

from stallbench.engines.error_kinds import ErrorKind, find_error_kind
from stallbench.faults import find_faults
from stallbench.run.record import RunRecord
from stallbench.verdicts.check import Check, Finding, RunTables

_SUBJECT = "errors are explained"
_JUDGED_BY = ("errors", "retried", "deadlocks", "deadlocks_in_claim", "deadlocks_in_complete", "deadlocks_in_enqueue")
"""Measures by which an expectation itself judges how many errors a phase has."""
_MOST_NAMED = 4


class Errors(Check):
    """Fails on errors that neither a fault nor an expectation explains.

    A fault explains the kinds of errors that its class declares (`Fault.explains_errors`), in its own phase and in the next one: a client may
    get the error only after the fault is over. An expectation on the number of errors in a phase judges all errors of that phase. Errors that
    the queue itself retried are reported and never fail.
    """

    name = "errors"
    position = 5

    def judge(self, run: RunTables) -> list[Finding]:
        """Return one finding."""
        errors = run["errors"]
        if errors.empty:
            return [self.finding("pass", _SUBJECT, "no operation ended in an error")]
        unexplained = find_unexplained(run)
        reason = f"errors: {', '.join(_describe_kinds(errors))}"
        if len(unexplained):
            named = _describe_kinds(unexplained)
            more = f" and {len(named) - _MOST_NAMED} more kinds" if len(named) > _MOST_NAMED else ""
            reason = f"no fault explains {', '.join(named[:_MOST_NAMED])}{more}; all {reason}"
        return [
            self.finding(
                "fail" if len(unexplained) else "pass",
                _SUBJECT,
                reason,
                expected="only errors that a fault or an expectation explains",
            )
        ]


def find_unexplained(run: RunTables) -> pd.DataFrame:
    """Return the rows of the table ``errors`` that neither a fault nor an expectation explains."""
    errors = run["errors"]
    explained = _list_explained_kinds(run.record)
    judged = {one.phase for one in run.record.scenario.expect if one.metric.partition(".")[0] in _JUDGED_BY}
    rows = errors[errors["event"] == "error"].to_dict("records")
    return pd.DataFrame([row for row in rows if not _is_explained(row, explained, judged)], columns=errors.columns)


def _list_explained_kinds(record: RunRecord) -> dict[str, frozenset[ErrorKind]]:
    """Return by phase which kinds of errors the faults of that phase, and of the one before it, explain."""
    kinds = find_faults()
    names = [phase.name for phase in record.phases]
    explained: dict[str, frozenset[ErrorKind]] = dict.fromkeys(names, frozenset())
    for fault in record.faults:
        explains = kinds[fault.kind].list_explained_errors(fault.options) if fault.kind in kinds else frozenset()
        following = {after for before, after in pairwise(names) if before == fault.phase}
        for name in {fault.phase, *following} if fault.phase else names:
            explained[name] = explained.get(name, frozenset()) | explains
    return explained


def _is_explained(row: Mapping[Any, Any], explained: Mapping[str, frozenset[ErrorKind]], judged: set[str | None]) -> bool:
    """Whether a row of the table ``errors`` is explained. One after the last phase is explained by any phase."""
    kind = find_error_kind(row["kind"], row["operation"])
    if pd.isna(row["phase"]):
        return bool(judged) or any(kind in kinds for kinds in explained.values())
    return None in judged or row["phase"] in judged or kind in explained.get(row["phase"], frozenset())


def _describe_kinds(errors: pd.DataFrame) -> list[str]:
    """Return a phrase for each code, operation and outcome, the most frequent first."""
    by_code = errors.groupby(["kind", "operation", "event"])["count"].sum().sort_values(ascending=False).reset_index()
    return [_describe_kind(row) for row in by_code.to_dict("records")]


def _describe_kind(row: Mapping[Any, Any]) -> str:
    kind = find_error_kind(row["kind"], row["operation"])
    meaning = f" ({kind})" if kind else ""
    operation = f" in {row['operation']}" if row["operation"] else ""
    return f"{row['count']:,} x {row['kind']}{meaning}{operation}" + (", retried" if row["event"] == "retried" else "")
