"""The command of a worker that is not the bench's."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerCommand:
    """How to start a worker that is not the bench's."""

    argv: Sequence[str]
    environment: Mapping[str, str]
    orderly_exit_codes: tuple[int, ...] = (0,)
    """Those with which it ends when it is asked to stop; negative: a signal."""
