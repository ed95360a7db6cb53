"""The tables in docs/libraries.md and docs/libraries-in-faults.md: what runs of published libraries showed."""
