"""Did calls raise, and was there a reason to?"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from typing import Any

import pandas as pd

from stallbench.injection.record import read_injections
from stallbench.verdicts.check import Check, Finding, RunTables

_JUDGED_BY = ("errors", "retried", "deadlocks", "deadlocks_in_claim", "deadlocks_in_complete", "deadlocks_in_enqueue")
"""Measures by which a scenario says itself how many errors there are to be."""

_ENDS = {"error": "", "retried": ", tried again"}


class Errors(Check):
    """Fails on errors of a phase in which no fault was injected and of which no expectation says how many there may be.

    In a phase with a fault, and the one after it, errors are the fault's effect, and are told. What a queue tried again by itself is told, too.
    """

    name = "errors"
    place = 4

    def judge(self, run: RunTables) -> list[Finding]:
        """Return one finding."""
        errors = run["errors"]
        if errors.empty:
            return [Finding(check=self.name, subject="errors by kind", result="pass", reason="no call raised", found="none")]
        expectations = run.record["scenario"]["expect"]
        faulty = _phases_with_faults(run.record)
        judged = {one["phase"] for one in expectations if one["metric"].partition(".")[0] in _JUDGED_BY}
        raised = errors[errors["event"] == "error"]
        # What goes on when the last phase ends still ends in errors, after it.
        is_explained = raised["phase"].isin(faulty | judged) | (raised["phase"].isna() & bool(faulty | judged))
        unexplained = raised[~is_explained] if None not in judged else raised.head(0)
        found = ", ".join(_describe_kinds(errors))
        return [
            Finding(
                check=self.name,
                subject="errors by kind",
                result="fail" if len(unexplained) else "pass",
                reason=f"calls raised: {found}",
                expected="none outside of faults, unless an expectation says how many",
                found=found,
            )
        ]


def _phases_with_faults(record: Mapping[str, Any]) -> set[str]:
    """Return the phases in which a fault was injected, and the one after each: what a fault breaks may be found out when it is over."""
    names = [phase["name"] for phase in record["phases"]]
    struck = {fault.phase for fault in read_injections(record, "fault") if fault.phase}
    return struck | {after for before, after in pairwise(names) if before in struck}


def _describe_kinds(errors: pd.DataFrame) -> list[str]:
    """Return a phrase for each kind, operation and outcome, the most frequent first."""
    by_kind = errors.groupby(["kind", "operation", "event"])["count"].sum().sort_values(ascending=False).reset_index()
    return [
        f"{row['count']:,} x {row['kind']}" + (f" in {row['operation']}" if row["operation"] else "") + _ENDS[row["event"]]
        for row in by_kind.to_dict("records")
    ]
