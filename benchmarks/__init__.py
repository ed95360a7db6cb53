"""Benchmarks of the bench itself: its throughput and its overhead. The results are ratios within one session, because machines differ."""
