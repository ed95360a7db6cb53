"""The unit of all times in records: nanoseconds since 1970."""

from __future__ import annotations

NS_PER_S = 1_000_000_000
NEVER_NS = 1 << 62
"""A time after every other, for what has not ended or did not happen."""
