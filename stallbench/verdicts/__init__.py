"""Turns a run's tables into its verdict: every check runs, and what cannot be decided never passes. Each check has its own file: to add a check, add
a file with a subclass of `Check`.
"""

from __future__ import annotations

import json
import sys
from functools import cache

from stallbench.base.storage.atomic_file import replace_file
from stallbench.discovery import PluginGroup, discover
from stallbench.verdicts.attribution import attribute
from stallbench.verdicts.check import Check, Finding, RunTables
from stallbench.verdicts.outcome import Outcome
from stallbench.verdicts.verdict import Verdict, decide

__all__ = ["Check", "Finding", "Outcome", "RunTables", "Verdict", "find_checks", "judge"]


@cache
def find_checks() -> dict[str, type[Check]]:
    """Return every check in this folder by its name, in the order in which the report shows them."""
    found = discover(sys.modules[__name__], Check, PluginGroup.CHECKS)
    return {each.name: each for each in sorted(found, key=lambda each: (each.position, each.name))}


def judge(tables: RunTables) -> Verdict:
    """Run every check that applies and the attribution, and write ``verdict.json`` into the run's folder."""
    findings: list[Finding] = []
    for check in find_checks().values():
        if tables.record.is_observation and not check.judges_observations:
            continue
        try:
            findings += check().judge(tables) or [check().unknown(check.name, "the check found nothing to say")]
        except Exception as error:  # noqa: BLE001 - an exception makes this check unknown, and the others still run
            findings.append(check().unknown(check.name, f"the check raised {type(error).__name__}: {error}"))
    outcome, no_outcome = _find_outcome(tables)
    verdict = decide(tables.record, findings, attribute(tables), outcome, no_outcome)
    replace_file(tables.folder / "verdict.json", json.dumps(verdict.as_json(), indent=1))
    return verdict


def _find_outcome(tables: RunTables) -> tuple[Outcome | None, str]:
    """Return the outcome, or why there is none; a run whose tables are damaged still gets a verdict."""
    if tables.record.is_observation:
        return None, "a server was only observed"
    try:
        return tables.outcome, ""
    except Exception as error:  # noqa: BLE001 - as of a check: the reason is shown, and the rest is still judged
        return None, f"reading the tables raised {type(error).__name__}: {error}"
