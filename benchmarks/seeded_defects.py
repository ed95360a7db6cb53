"""``python -m benchmarks.seeded_defects [--rounds 20] [--first 1] [--at-once 2] [--only QUEUE]``: how reliable are the verdicts?

Each round runs each queue of ``tests/defective_queues`` and each correct queue from which these were made, several at the same time. The seed
of a round is its number, which starts at ``--first``. After every round, a table in Markdown lists the missed defects and the false alarms.
"""

from __future__ import annotations

import argparse
import os
import shutil
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

from stallbench.pipeline.make import write_tables
from stallbench.pipeline.session import open_session
from tests.defective_queues.trial import Outcome, Subject, find_subjects, judge_trial, run_trials

_JUDGES = 2
"""Runs that are judged at the same time. For runs as small as these, Spark mostly plans, which uses one core."""


def main() -> None:
    """Run the rounds and print the table so far after each."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.seeded_defects")
    parser.add_argument("--rounds", type=int, default=20, help="the number of runs of each queue")
    parser.add_argument("--first", type=int, default=1, help="the number of the first round, its seed")
    parser.add_argument("--at-once", type=int, default=2, help="the number of queues that run at the same time")
    subjects = find_subjects()
    parser.add_argument(
        "--only", action="append", choices=[subject.name for subject in subjects], help="only this queue; can be repeated"
    )
    options = parser.parse_args()
    subjects = [subject for subject in subjects if options.only is None or subject.name in options.only]
    outcomes: dict[str, list[Outcome]] = {subject.name: [] for subject in subjects}
    busy: list[float] = []
    with (
        tempfile.TemporaryDirectory(prefix="seeded-defects-") as folder,
        open_session("local[2]") as spark,
        ThreadPoolExecutor(_JUDGES) as judges,
    ):
        for number in range(options.first, options.first + options.rounds):
            began_s = time.monotonic()
            judged = []
            for subject, run in run_trials(subjects, Path(folder), at_once=options.at_once, seed=number):
                busy.append(os.getloadavg()[0])
                judged.append((subject, judges.submit(judge_and_remove, run, partial(write_tables, spark.newSession()))))
            for subject, judging in judged:
                outcome = judging.result()
                outcomes[subject.name].append(outcome)
                if not outcome.is_right(subject):
                    print(f"round {number}, {subject.name}: {outcome.describe()}", flush=True)
            print(f"\nround {number}: {time.monotonic() - began_s:.0f} s; load so far {min(busy):.0f} to {max(busy):.0f}\n")
            print(make_table(subjects, outcomes), flush=True)


def judge_and_remove(run: Path, make_tables: Callable[[Path], None]) -> Outcome:
    """Judge a trial and remove its folder."""
    outcome = judge_trial(run, make_tables)
    shutil.rmtree(run)
    return outcome


def make_table(subjects: Sequence[Subject], outcomes: Mapping[str, Sequence[Outcome]]) -> str:
    """Return a table with a row for each queue: its runs, its wrong verdicts, and how often each check failed."""
    lines = [
        "| queue | check that must fail | runs | missed, or false alarm | checks that failed, in how many runs |",
        "|---|---|---|---|---|",
    ]
    for subject in subjects:
        of_one = outcomes[subject.name]
        failed = Counter(
            check for outcome in of_one for check in (*outcome.failed, *(f"{check} (unknown)" for check in outcome.unknown))
        )
        failures = ", ".join(f"{check} {count}" for check, count in failed.most_common())
        wrong = sum(not outcome.is_right(subject) for outcome in of_one)
        lines.append(f"| `{subject.name}` | {subject.caught_by or 'none: it is sound'} | {len(of_one)} | {wrong} | {failures} |")
    return "\n".join(lines)


if __name__ == "__main__":
    main()
