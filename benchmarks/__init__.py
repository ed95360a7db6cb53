"""Benchmarks of the bench itself: its throughput and its overhead, as ratios within one session, because machines differ and are noisy."""
