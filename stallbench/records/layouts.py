"""The columns of each kind of record file, and what is counted of its lines while they are read."""

from __future__ import annotations

from dataclasses import dataclass

from stallbench.records.events import EVENT_COLUMNS, EVENT_NUMBERS, Event
from stallbench.records.final_snapshot import COLUMNS, FINAL_SNAPSHOT_FILE
from stallbench.records.samples import SAMPLE_COLUMNS

LONGEST_LINE_BYTES = 16_384
"""All records are much shorter. A longer line is torn; it is not split, because it may have thousands of columns."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """What a kind of record file has on each line."""

    kind: str
    """Name of the kind: of its folder, or of the one file."""
    columns: tuple[str, ...]
    """All columns, in order."""
    numbers: tuple[str, ...] = ()
    """Columns that are a whole number or empty."""
    words: tuple[str, ...] = ()
    """Columns of text with few different values."""
    given: tuple[str, ...]
    """Columns that are never empty."""

    @property
    def is_folder(self) -> bool:
        """Whether there is a folder with a file for each process or collector."""
        return not self.kind.endswith(".csv")

    def name_file(self, file: str) -> str:
        """Return the name of a file below the run's folder: ``events/worker-3.csv``."""
        return f"{self.kind}/{file}" if self.is_folder else file


EVENTS = Layout(
    kind="events",
    columns=EVENT_COLUMNS,
    numbers=EVENT_NUMBERS,
    words=("process", "event"),
    given=("t_ns", "mono_ns", "process", "event"),
)
SAMPLES = Layout(
    kind="samples",
    columns=SAMPLE_COLUMNS,
    numbers=("t_ns",),
    words=("source", "subject", "metric"),
    given=("t_ns", "source", "subject", "metric"),
)
FINAL_SNAPSHOT = Layout(kind=FINAL_SNAPSHOT_FILE, columns=COLUMNS, words=("word",), given=COLUMNS)
LEFT_OVER = Layout(kind="left_over.csv", columns=COLUMNS, words=("word",), given=COLUMNS)
LAYOUTS = (EVENTS, SAMPLES, FINAL_SNAPSHOT, LEFT_OVER)

STATED_JOBS = "stated_jobs"
PRECONDITIONS = "preconditions"
SUBJECTS = {"holder:": "samples of holders", "client_write:": "samples of stuck clients", "statement:": "samples of statements"}
OVERDUE = "samples of overdue vacuums"

EVENT_IDS = {str(event): number for number, event in enumerate(Event)}
"""What stands for each event in the column ``event_id``."""
