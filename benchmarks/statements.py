"""``python -m benchmarks.statements [ROUNDS]``: what it costs that a server counts statements, and that the bench reads the counts each second.

For PostgreSQL (``pg_stat_statements``) and MariaDB (the performance schema), in interleaved rounds. Two servers of an engine run side by side, of
which one counts no statements; only one of them has work at a time.
"""

from __future__ import annotations

import statistics
import sys
from collections.abc import Callable, Mapping
from contextlib import ExitStack

from benchmarks.laravel import open_laravel_rig
from benchmarks.saturation import open_rig
from benchmarks.workers import MEASURED_S, Throughput
from stallbench.engines.innodb.collectors.statements import InnoDBStatementsCollector
from stallbench.engines.postgres.collectors.statements import StatementsCollector

_UNCOUNTED, _COUNTED, _COLLECTED = "nothing counted", "counted", "counted and read"
_Subjects = Mapping[str, Callable[[], Throughput]]


def main() -> None:
    """Measure in interleaved rounds and print each ratio with its spread."""
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 3
    print(f"{MEASURED_S:.0f} s each, {rounds} rounds, through Toxiproxy")
    with ExitStack() as stack:
        silent, counting = stack.enter_context(open_rig({"shared_preload_libraries": ""})), stack.enter_context(open_rig())
        postgres: _Subjects = {
            _UNCOUNTED: lambda: silent.run_workers(collectors=False),
            _COUNTED: lambda: counting.run_workers(collectors=False),
            _COLLECTED: lambda: counting.run_workers(collectors=True, only=[StatementsCollector.name]),
        }
        silent.run_workers(collectors=False)
        _measure("PostgreSQL", postgres, rounds)
    with ExitStack() as stack:
        without = stack.enter_context(open_laravel_rig({"performance_schema": False}))
        with_schema = stack.enter_context(open_laravel_rig())
        mariadb: _Subjects = {
            _UNCOUNTED: without.run_workers,
            _COUNTED: with_schema.run_workers,
            _COLLECTED: lambda: with_schema.run_workers(only=[InnoDBStatementsCollector.name]),
        }
        without.run_workers()
        _measure("MariaDB", mariadb, rounds)


def _measure(engine: str, subjects: _Subjects, rounds: int) -> None:
    measured: dict[str, list[Throughput]] = {subject: [] for subject in subjects}
    for number in range(1, rounds + 1):
        for subject, run in subjects.items():
            measured[subject].append(run())
        rates = ", ".join(f"{subject} {of_it[-1].jobs_a_second:,.0f}" for subject, of_it in measured.items())
        print(f"{engine}, round {number}, jobs/s: {rates}", flush=True)
    for one, other in ((_COUNTED, _UNCOUNTED), (_COLLECTED, _COUNTED), (_COLLECTED, _UNCOUNTED)):
        ratios = [a.jobs_a_second / b.jobs_a_second for a, b in zip(measured[one], measured[other], strict=True)]
        print(
            f"  throughput, {one} to {other}: median {statistics.median(ratios):.3f} (from {min(ratios):.3f} to {max(ratios):.3f})"
        )
    for name in measured[_COLLECTED][0].collectors_ms:
        cost_ms = statistics.median(each.collectors_ms.get(name, 0.0) for each in measured[_COLLECTED])
        print(f"  time of the collector {name} in each second: {cost_ms:.1f} ms (it includes waiting for the server)")


if __name__ == "__main__":
    main()
