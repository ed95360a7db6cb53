"""Which holders of the horizon are recorded, on every engine."""

from __future__ import annotations

WORTH_RECORDING_S = 1.0
"""Younger holders are the workers' own transactions, one after the other; only the oldest of all is recorded then."""
MOST_RECORDED = 20
