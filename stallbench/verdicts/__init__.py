"""Turns a run's tables into its verdict: every check runs, and what cannot be decided never passes. Each check has its own file: to add a check, add
a file with a subclass of `Check`.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from functools import cache

from stallbench.base.storage.atomic_file import replace_file
from stallbench.discovery import PluginGroup, discover
from stallbench.verdicts.attribution import Attribution, attribute
from stallbench.verdicts.check import Check, Finding, RunTables
from stallbench.verdicts.outcome import Outcome
from stallbench.verdicts.verdict import Verdict, decide

__all__ = ["Check", "Finding", "Outcome", "RunTables", "Verdict", "find_checks", "judge", "judge_figures"]


@cache
def find_checks() -> dict[str, type[Check]]:
    """Return every check in this folder by its name, in the order in which the report shows them."""
    found = discover(sys.modules[__name__], Check, PluginGroup.CHECKS)
    return {each.name: each for each in sorted(found, key=lambda each: (each.position, each.name))}


def judge(tables: RunTables) -> Verdict:
    """Run every check that applies and the attribution, and write ``verdict.json`` into the run's folder."""
    findings: list[Finding] = []
    for check in find_checks().values():
        if not tables.record.is_observation or check.judges_observations:
            findings += _judge_by(check, tables)
    outcome, no_outcome = _find_outcome(tables)
    verdict = decide(tables.record, findings, attribute(tables), outcome, no_outcome)
    replace_file(tables.folder / "verdict.json", json.dumps(verdict.as_json(), indent=1))
    return verdict


def judge_figures(tables: RunTables, found: Sequence[Finding], attribution: Attribution) -> Verdict:
    """Return the verdict of a run of which only figures are left. Nothing is written.

    ``found``: what the checks that read more than figures, and the attribution, said when there was more.
    """
    findings: list[Finding] = []
    for name, check in find_checks().items():
        findings += _judge_by(check, tables) if check.judges_figures else [each for each in found if each.check == name]
    outcome, no_outcome = _find_outcome(tables)
    return decide(tables.record, findings, attribution, outcome, no_outcome)


def _judge_by(check: type[Check], tables: RunTables) -> list[Finding]:
    try:
        return check().judge(tables) or [check().unknown(check.name, "the check found nothing to say")]
    except Exception as error:  # noqa: BLE001 - an exception makes this check unknown, and the others still run
        return [check().unknown(check.name, f"the check raised {type(error).__name__}: {error}")]


def _find_outcome(tables: RunTables) -> tuple[Outcome | None, str]:
    """Return the outcome, or why there is none; a run whose tables are damaged still gets a verdict."""
    if tables.record.is_observation:
        return None, "a server was only observed"
    try:
        return tables.outcome, ""
    except Exception as error:  # noqa: BLE001 - as of a check: the reason is shown, and the rest is still judged
        return None, f"reading the tables raised {type(error).__name__}: {error}"
