"""What the bench itself costs and reaches, as ratios within one run: machines differ and are noisy. ``python -m benchmarks`` runs all."""
