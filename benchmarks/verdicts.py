"""Is the verdict of a scenario the same each time? ``python -m benchmarks.verdicts longtx --runs 20``.

Runs the scenario repeatedly and interleaved: each odd run on the machine as it is, each even run beside a process that keeps one core busy. Prints
a row after each run: its verdict, each expectation, and how long the command took in and outside of its phases. The runs' folders are removed.
"""

from __future__ import annotations

import argparse
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path

from stallbench.processes.parent_death import die_with_parent
from stallbench.records.nanoseconds import NS_PER_S
from stallbench.report.outcome_text import name_verdict
from stallbench.run.record import read_record
from stallbench.verdicts.verdict_file import read_verdict


@contextmanager
def busy_core() -> Iterator[None]:
    """Keep one core busy while the block runs."""
    process = subprocess.Popen(
        [sys.executable, "-c", "while True: pass"],
        preexec_fn=die_with_parent(signal.SIGKILL),  # noqa: PLW1509 - only a system call, before any thread is started
    )
    try:
        yield
    finally:
        process.kill()
        process.wait()


def run_once(scenario: str, options: list[str], runs: Path) -> str:
    """Run the scenario; returns a row of the table without its first two cells."""
    began_s = time.monotonic()
    command = [sys.executable, "-c", "from stallbench.cli import main; main()", "run", scenario, *options, "--runs", str(runs)]
    ended = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    took_s = time.monotonic() - began_s
    folder = (runs / "latest").resolve()
    if not (folder / "verdict.json").exists():
        return f"could not be carried out | {ended.stdout.strip().splitlines()[-1]} | {took_s:.0f} s | |"
    record, verdict = read_record(folder / "run.json"), read_verdict(folder)
    phases = [phase for phase in record.phases if phase.start_ns and phase.end_ns]
    phases_s = sum((phase.end_ns or 0) - (phase.start_ns or 0) for phase in phases) / NS_PER_S
    checks = [finding for finding in verdict.findings if finding.check == "expectations" or finding.result in ("fail", "unknown")]
    found = "; ".join(f"{finding.reason.split('; expected')[0]} ({finding.result})" for finding in checks)
    return f"{name_verdict(record, verdict)} | {found} | {took_s:.0f} s | {phases_s:.0f} s | {took_s - phases_s:.0f} s |"


def main() -> None:
    """Print a table with a row for each run."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.verdicts")
    parser.add_argument("scenario")
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE")
    options = parser.parse_args()
    changes = [part for change in options.set for part in ("--set", change)]
    print("| run | machine | verdict | expectations | command | phases | outside |\n|---|---|---|---|---|---|---|", flush=True)
    for number in range(1, options.runs + 1):
        is_busy = number % 2 == 0
        with busy_core() if is_busy else nullcontext(), tempfile.TemporaryDirectory(prefix="stallbench-verdicts-") as runs:
            row = run_once(options.scenario, changes, Path(runs))
            print(f"| {number} | {'one core busy' if is_busy else 'as it is'} | {row}", flush=True)


if __name__ == "__main__":
    main()
