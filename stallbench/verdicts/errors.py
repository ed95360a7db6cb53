"""Did operations end in errors that neither a fault nor an expectation explains?"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from typing import Any

import pandas as pd

from stallbench.engines.error_codes import find_error_kind
from stallbench.engines.error_kinds import WAITS_FOR_SERVER, ErrorKind
from stallbench.injection.faults import find_faults
from stallbench.measures import split_metric
from stallbench.pipeline.call_errors import compute_grace_s
from stallbench.run.record import RunRecord
from stallbench.scenario.expectation import Expectation
from stallbench.shell_command import format_shell_command
from stallbench.verdicts.check import Check, Finding, RunTables

_SUBJECT = "errors are explained"


@dataclass(frozen=True, slots=True)
class _Judged:
    """The errors that a measure counts."""

    kind: ErrorKind | None = None
    """None: of any kind."""
    operation: str | None = None
    """None: of any operation."""
    codes: tuple[str, ...] = ()
    """Empty: of any code."""

    def has(self, code: str, operation: str) -> bool:
        """Whether it counts an error with ``code`` in ``operation``."""
        is_of_kind = self.kind is None or self.kind is find_error_kind(code, operation)
        return is_of_kind and self.operation in (None, operation) and (not self.codes or code in self.codes)


_JUDGED_BY: Mapping[str, _Judged] = {
    "errors": _Judged(),
    "deadlocks": _Judged(ErrorKind.DEADLOCK),
    "deadlocks_in_claim": _Judged(ErrorKind.DEADLOCK, "claim"),
    "deadlocks_in_complete": _Judged(ErrorKind.DEADLOCK, "complete"),
    "deadlocks_in_enqueue": _Judged(ErrorKind.DEADLOCK, "enqueue"),
}
"""Measures by which an expectation judges the number of errors in place of this check. ``retried`` is not among them: it counts errors after which
the queue continued, and these never fail."""
_MOST_NAMED = 4


class Errors(Check):
    """Fails on errors that neither a fault nor an expectation explains.

    A fault explains the kinds of errors that its class declares (`Fault.explains_errors`), from its start to `compute_grace_s` after its
    verified end. Before the first phase no fault has been active, so no fault explains an error there.

    An expectation on the number of errors judges them if it has an upper bound; with ``codes`` it judges the errors with these codes, whatever its
    bound. An expectation with only a lower bound and no ``codes`` judges none: any error would meet it. An expectation on deadlocks judges errors
    that report a deadlock. Each judges the errors of its phase, and those until the next phase begins, because calls of that phase may end later. An
    expectation on the whole run judges those from the first measured phase to the last, as its measure counts them; its ``codes`` are expected in the
    warm-up, too. Errors that the queue itself retried are reported and never fail.
    """

    name = "errors"
    position = 5

    def judge(self, run: RunTables) -> list[Finding]:
        """Return one finding; unknown if no operation was recorded, or if the table is of an earlier version."""
        errors = run["errors"]
        if errors.empty and not run.count_operations():
            return [self.unknown(_SUBJECT, "no operation was recorded, so nothing is known of errors")]
        if errors.empty:
            return [self.finding("pass", _SUBJECT, "no operation ended in an error")]
        for column in ("faults", "latest_phase"):
            if column not in errors:
                reason = f"the table errors was made by an earlier version and does not have the column {column}"
                return [
                    self.unknown(
                        _SUBJECT, f"{reason}; make the tables again: {format_shell_command(['stallbench', 'report', run.folder])}"
                    )
                ]
        unexplained = find_unexplained(run)
        reason = f"errors: {', '.join(_describe_kinds(errors))}"
        if len(unexplained):
            named = _describe_kinds(unexplained)
            more = f" and {len(named) - _MOST_NAMED} more kinds" if len(named) > _MOST_NAMED else ""
            reason = f"no fault explains {', '.join(named[:_MOST_NAMED])}{more}; all {reason}"
        within = f", until {compute_grace_s(run.record):.0f} s after the fault's end" if run.record.faults else ""
        return [
            self.finding(
                "fail" if len(unexplained) else "pass",
                _SUBJECT,
                reason,
                expected=f"only errors that a fault or an expectation explains{within}",
            )
        ]


def find_unexplained(run: RunTables) -> pd.DataFrame:
    """Return the rows of the table ``errors`` that neither a fault nor an expectation explains."""
    errors = run["errors"]
    by_fault = _list_kinds_by_fault(run.record)
    judged = _list_judged(run.record)
    rows = errors[errors["event"] == "error"].to_dict("records")
    return pd.DataFrame([row for row in rows if not _is_explained(row, by_fault, judged)], columns=errors.columns)


def _list_kinds_by_fault(record: RunRecord) -> dict[str, frozenset[ErrorKind]]:
    """Return which kinds of errors each fault explains, by its name; none if its kind is no longer installed."""
    kinds = find_faults()
    by_fault = {
        fault.name: kinds[fault.kind].list_explained_errors(fault.options) for fault in record.faults if fault.kind in kinds
    }
    return {
        name: explained | ({ErrorKind.NO_ANSWER} if explained & WAITS_FOR_SERVER else set())
        for name, explained in by_fault.items()
    }


def _list_judged(record: RunRecord) -> dict[str | None, list[_Judged]]:
    """Return which errors expectations judge, by the phase that had begun last; None: before the first phase."""
    of_phases: dict[str | None, list[_Judged]] = {name: [] for name in (None, *(phase.name for phase in record.phases))}
    measured = [index for index, phase in enumerate(record.phases) if phase.measured]
    whole_run = [phase.name for phase in record.phases[min(measured) : max(measured) + 1]] if measured else []
    for one in record.scenario.expect:
        counted = _find_judged(one)
        if counted is not None:
            for name in [one.phase] if one.phase else of_phases if one.codes else whole_run:
                of_phases[name].append(counted)
    return of_phases


def _find_judged(expectation: Expectation) -> _Judged | None:
    """Return which errors an expectation judges; none if it judges none."""
    counted = _JUDGED_BY.get(split_metric(expectation.metric)[0])
    if counted != _Judged() or expectation.codes:
        return counted and replace(counted, codes=expectation.codes or ())
    return counted if expectation.at_most is not None else None


def _is_explained(
    row: Mapping[Any, Any], by_fault: Mapping[str, Collection[ErrorKind]], judged: Mapping[str | None, list[_Judged]]
) -> bool:
    """Whether a row of the table ``errors`` is explained."""
    latest_phase = None if pd.isna(row["latest_phase"]) else row["latest_phase"]
    if any(each.has(row["kind"], row["operation"]) for each in judged.get(latest_phase, ())):
        return True
    kind = find_error_kind(row["kind"], row["operation"])
    return latest_phase is not None and any(kind in by_fault.get(fault, ()) for fault in row["faults"])


def _describe_kinds(errors: pd.DataFrame) -> list[str]:
    """Return a phrase for each code, operation and outcome, the most frequent first."""
    by_code = errors.groupby(["kind", "operation", "event"])["count"].sum().sort_values(ascending=False).reset_index()
    return [_describe_kind(row) for row in by_code.to_dict("records")]


def _describe_kind(row: Mapping[Any, Any]) -> str:
    kind = find_error_kind(row["kind"], row["operation"])
    meaning = f" ({kind})" if kind else ""
    operation = f" in {row['operation']}" if row["operation"] else ""
    return f"{row['count']:,} x {row['kind']}{meaning}{operation}" + (", retried" if row["event"] == "retried" else "")
