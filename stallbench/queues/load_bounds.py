"""How much load a scenario can ask for: the bounds of producers, workers and jobs."""

from __future__ import annotations

MOST_RATE = 1_000_000
"""Jobs per second, of all producers together."""
MOST_AT_ONCE = 1_000_000
"""Jobs that a burst enqueues at once."""
MOST_BACKLOG = 10_000_000
"""Jobs that are in the queue before the first phase."""
MOST_WORKERS = 256
MOST_WORK_S = 3600
LEAST_PAYLOAD_BYTES = 16
MOST_PAYLOAD_BYTES = 1_048_576
