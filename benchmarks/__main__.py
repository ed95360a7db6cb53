"""``python -m benchmarks [ROUNDS]``: compares the bench with pgbench, and the bench with and without its collectors, in interleaved rounds."""

from __future__ import annotations

import statistics
import sys

from benchmarks.saturation import CLIENTS, open_rig
from benchmarks.workers import MEASURED_S


def main() -> None:
    """Measure in interleaved rounds and print each ratio with its spread."""
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 3
    to_pgbench, throughput, claim_time = [], [], []
    with open_rig() as rig:
        rig.run_workers(collectors=False)
        for number in range(1, rounds + 1):
            without = rig.run_workers(collectors=False)
            with_collectors = rig.run_workers(collectors=True)
            pgbench = rig.run_pgbench()
            to_pgbench.append(without.jobs_a_second / pgbench)
            throughput.append(with_collectors.jobs_a_second / without.jobs_a_second)
            claim_time.append(with_collectors.claim_p50_ms / without.claim_p50_ms)
            print(
                f"round {number}: bench {without.jobs_a_second:,.0f} jobs/s, with collectors {with_collectors.jobs_a_second:,.0f}, "
                f"pgbench {pgbench:,.0f}; claim p50 {without.claim_p50_ms:.3f} ms, with collectors {with_collectors.claim_p50_ms:.3f}",
                flush=True,
            )
    print(f"\n{CLIENTS} clients, {MEASURED_S:.0f} s each, {rounds} rounds, through Toxiproxy:")
    for name, ratios in (
        ("throughput, bench to pgbench", to_pgbench),
        ("throughput, collectors on to off", throughput),
        ("claim time p50, collectors on to off", claim_time),
    ):
        print(f"  {name}: median {statistics.median(ratios):.3f} (from {min(ratios):.3f} to {max(ratios):.3f})")


if __name__ == "__main__":
    main()
