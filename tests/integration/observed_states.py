"""Records what `stallbench observe` says of a state that a test has built, for the table of docs/results/observe.md."""

from __future__ import annotations

import json
import os
from dataclasses import asdict
from pathlib import Path

from stallbench.observe.observer import Observation

FILE = "STALLBENCH_OBSERVED_STATES"
"""Environment variable: the file to which each state is appended, as a line of JSON. Without it nothing is recorded."""


def record_state(state: str, truth: str, observation: Observation) -> None:
    """Record what an observation says.

    ``state``: what the test did to the server, in words that fit a cell of a table. ``truth``: what is to blame and what ends it, as it is known from
    how the state was built.
    """
    path = os.environ.get(FILE)
    if not path:
        return
    findings = [
        {
            "severity": one.severity.name,
            "sentence": one.sentence,
            "statement": one.statement,
            "where": one.where,
            "caution": one.caution,
            "other_ways": [asdict(way) for way in one.other_ways],
        }
        for one in observation.findings
    ]
    with Path(path).open("a", encoding="utf-8") as file:
        file.write(json.dumps({"state": state, "truth": truth, "findings": findings}) + "\n")
