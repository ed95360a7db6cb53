"""``python -m benchmarks.seeded_defects [ROUNDS [AT_ONCE]]``: does the verdict see what is wrong, and only that?

Each queue of ``tests/defective_queues`` and each sound queue that these were made from is run, ROUNDS times by turns, AT_ONCE of them at
the same time, each round with another seed. What was missed and what was a false alarm is printed as a table in Markdown, after every round.
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

from stallbench.pipeline.session import open_session
from tests.defective_queues.trial import Outcome, Subject, find_subjects, judge_trial, run_trials

_ROUNDS, _AT_ONCE = 20, 2


def main() -> None:
    """Run the rounds and print the table so far after each."""
    rounds, at_once = (*(int(argument) for argument in sys.argv[1:]), *(_ROUNDS, _AT_ONCE)[len(sys.argv) - 1 :])
    subjects = find_subjects()
    outcomes: dict[str, list[Outcome]] = {subject.name: [] for subject in subjects}
    busy: list[float] = []
    with tempfile.TemporaryDirectory(prefix="seeded-defects-") as folder, open_session("local[2]") as spark:
        for number in range(1, rounds + 1):
            began_s = time.monotonic()
            for subject, run in run_trials(subjects, Path(folder), at_once=at_once, seed=number):
                busy.append(os.getloadavg()[0])
                outcome = judge_trial(spark, run)
                outcomes[subject.name].append(outcome)
                shutil.rmtree(run)
                if not outcome.is_right(subject):
                    print(f"round {number}, {subject.name}: {outcome.tell()}", flush=True)
            print(f"\nround {number} of {rounds}: {time.monotonic() - began_s:.0f} s; load {min(busy):.0f} to {max(busy):.0f}\n")
            print(make_table(subjects, outcomes), flush=True)


def make_table(subjects: Sequence[Subject], outcomes: Mapping[str, Sequence[Outcome]]) -> str:
    """Return a row for each queue: how often it was run, how often the verdict was wrong, and which checks failed how often."""
    lines = [
        "| queue | check that must fail | runs | missed, or false alarm | checks that failed, in how many runs |",
        "|---|---|---|---|---|",
    ]
    for subject in subjects:
        of_one = outcomes[subject.name]
        failed = Counter(
            check for outcome in of_one for check in (*outcome.failed, *(f"{check} (unknown)" for check in outcome.unknown))
        )
        told = ", ".join(f"{check} {count}" for check, count in failed.most_common())
        wrong = sum(not outcome.is_right(subject) for outcome in of_one)
        lines.append(f"| `{subject.name}` | {subject.caught_by or 'none: it is sound'} | {len(of_one)} | {wrong} | {told} |")
    return "\n".join(lines)


if __name__ == "__main__":
    main()
