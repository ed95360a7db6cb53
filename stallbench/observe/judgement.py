"""Judges the expectations of an observation that was recorded for ``--expect`` alone: verdict, JUnit file and exit code, without tables and report."""

from __future__ import annotations

import json
from pathlib import Path

from stallbench.base.storage.atomic_file import replace_file
from stallbench.observe.sampled_metrics import SampledRun
from stallbench.report.junit import write_junit
from stallbench.verdicts.attribution import Attribution
from stallbench.verdicts.expectations import Expectations
from stallbench.verdicts.verdict import Verdict, decide


def judge_expectations(folder: Path) -> Verdict:
    """Write ``verdict.json`` and ``junit.xml`` into the folder of the observation; returns the verdict."""
    run = SampledRun(folder)
    findings = Expectations().judge(run)
    not_computed = "Who held the horizon was not computed: stallbench report RUN does that."
    verdict = decide(run.record, findings, Attribution(sentence=not_computed, holders=(), no_holders=not_computed, trend=None))
    replace_file(folder / "verdict.json", json.dumps(verdict.as_json(), indent=1))
    write_junit(folder / "junit.xml", run, verdict)
    return verdict
