"""``python -m benchmarks [ROUNDS]``: compares the bench with pgbench, and the bench with and without its collectors, in interleaved rounds."""

from __future__ import annotations

import statistics
import sys
from collections.abc import Callable, Mapping, Sequence

from benchmarks.saturation import CLIENTS, Rig, open_rig
from benchmarks.workers import MEASURED_S, Throughput

_BENCH, _COLLECTORS, _PGBENCH, _PGBENCHES = "bench", "with collectors", "pgbench", f"{CLIENTS} x pgbench"
_SUBJECTS: dict[str, Callable[[Rig], Throughput]] = {
    _BENCH: lambda rig: rig.run_workers(collectors=False),
    _COLLECTORS: lambda rig: rig.run_workers(collectors=True),
    _PGBENCH: lambda rig: rig.run_pgbench(processes=1),
    _PGBENCHES: lambda rig: rig.run_pgbench(processes=CLIENTS),
}


def main() -> None:
    """Measure in interleaved rounds and print each ratio with its spread, and where the processor time goes."""
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 3
    measured: dict[str, list[Throughput]] = {subject: [] for subject in _SUBJECTS}
    with open_rig() as rig:
        rig.run_workers(collectors=False)
        for number in range(1, rounds + 1):
            for subject, run in _SUBJECTS.items():
                measured[subject].append(run(rig))
            rates = ", ".join(f"{subject} {of_it[-1].jobs_a_second:,.0f}" for subject, of_it in measured.items())
            print(f"round {number}, jobs/s: {rates}", flush=True)
    _print_ratios(measured, rounds)
    _print_costs(measured)


def _print_ratios(measured: Mapping[str, Sequence[Throughput]], rounds: int) -> None:
    print(f"\n{CLIENTS} clients, {MEASURED_S:.0f} s each, {rounds} rounds, through Toxiproxy:")
    bench, with_collectors = measured[_BENCH], measured[_COLLECTORS]
    for name, ratios in (
        ("throughput, bench to pgbench (one process, two threads)", _divide(bench, measured[_PGBENCH])),
        (f"throughput, bench to pgbench ({CLIENTS} processes, like the bench's workers)", _divide(bench, measured[_PGBENCHES])),
        ("throughput, collectors on to off", _divide(with_collectors, bench)),
        (
            "claim time p50, collectors on to off",
            [
                on.claim_p50_ms / off.claim_p50_ms
                for on, off in zip(with_collectors, bench, strict=True)
                if on.claim_p50_ms and off.claim_p50_ms
            ],
        ),
    ):
        print(f"  {name}: median {statistics.median(ratios):.3f} (from {min(ratios):.3f} to {max(ratios):.3f})")


def _divide(ones: Sequence[Throughput], others: Sequence[Throughput]) -> list[float]:
    return [one.jobs_a_second / other.jobs_a_second for one, other in zip(ones, others, strict=True)]


def _print_costs(measured: Mapping[str, Sequence[Throughput]]) -> None:
    print("\nprocessor time for each job, us, medians:")
    for subject, of_it in measured.items():
        groups = {group: statistics.median(one.processor_us[group] for one in of_it) for group in of_it[0].processor_us}
        print(f"  {subject}: " + ", ".join(f"{group} {used_us:.0f}" for group, used_us in groups.items()))
    of_collectors = [one.collectors_ms for one in measured[_COLLECTORS]]
    costs = {name: statistics.median(one.get(name, 0.0) for one in of_collectors) for name in of_collectors[0]}
    print("\ntime of the collectors in each second, ms, medians (it includes waiting for the server):")
    print("  " + ", ".join(f"{name} {cost_ms:.1f}" for name, cost_ms in costs.items()))


if __name__ == "__main__":
    main()
