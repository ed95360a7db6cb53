"""What a defective queue says of its fault."""

from __future__ import annotations

from typing import ClassVar


class SeededDefect:
    """Mixed into a queue that was sound."""

    caught_by: ClassVar[str]
    """The check that must fail: the property that the defect breaks. Others may fail with it."""
    tried_under: ClassVar[str] = "rough"
    """The variant of `trial.toml` that it is tried under; the queue without the defect must pass the same."""
