"""The sample log: what collectors measured, in long form, one file for each collector."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple, Self

from stallbench.records.lines import REPLACED_IN_VALUES
from stallbench.visible_text import make_visible


class SampleRecord(NamedTuple):
    """One line of ``samples/<collector>.csv``. Its fields are the columns, in their order; the files have no header."""

    t_ns: int
    """Wall clock of the sample, nanoseconds since 1970 (UTC)."""
    source: str
    """The server or host that was sampled (``primary``, ``replica-1``, ``host``), or ``collector``."""
    subject: str
    """What was measured: ``table:que_jobs``, ``process:worker-3``, ``backend:4711``, ``server``."""
    metric: str
    """A name from docs/run-folder.md, with its unit."""
    value: str
    """A number, or a short text for metrics that are names (``state``, ``application``)."""


SAMPLE_COLUMNS = SampleRecord._fields


@dataclass(frozen=True, slots=True)
class Sample:
    """One measured value; the fields are those of `SampleRecord` without the time."""

    source: str
    subject: str
    metric: str
    value: float | int | str

    def made_visible(self) -> Sample:
        """Return it as it is recorded: its texts are visible, without what separates the values of a line."""
        value = _write(self.value) if isinstance(self.value, str) else self.value
        return Sample(_write(self.source), _write(self.subject), self.metric, value)


def _write(text: str) -> str:
    return make_visible(text.translate(REPLACED_IN_VALUES), in_one_line=True)


class SampleLog:
    """Appends the samples of one collector to its own file; all samples of one moment in one ``write``."""

    def __init__(self, path: Path, observe: Callable[[Sequence[Sample]], None] | None = None) -> None:
        """Open ``path`` for appending, creating it; the folder must exist. ``observe`` is called with what is written."""
        self._observe = observe
        self._fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)

    def write(self, t_ns: int, samples: Sequence[Sample]) -> None:
        """Record ``samples`` as taken at ``t_ns``; raises `OSError` when they could not be written whole."""
        samples = [s.made_visible() for s in samples]
        lines = "".join(f"{t_ns},{s.source},{s.subject},{s.metric},{s.value}\n" for s in samples).encode()
        if lines and os.write(self._fd, lines) != len(lines):
            raise OSError("a sample was not written whole; is the disk full?")
        if self._observe is not None:
            self._observe(samples)

    def close(self) -> None:
        """Close the file; the log cannot be written afterwards."""
        os.close(self._fd)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()
