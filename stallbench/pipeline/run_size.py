"""How large a run is, before any record of it is read. It needs no Spark: the bench decides by it which process makes the tables."""

from __future__ import annotations

from pathlib import Path

from stallbench.base.storage.address import address_errors, is_address, open_address
from stallbench.errors import BadInputError
from stallbench.records.layouts import EVENTS
from stallbench.records.sealing import SEALED, find_sealed

EVENTS_PER_PARTITION = 500_000
"""Of a shuffle, if the run is large; as many are taken for granted if the size is unknown."""
_SMALL_RUN_BYTES = 600 * 1024**2
_BYTES_PER_EVENT = 80
_TEXT_PER_SEALED = 2


def is_small(run_folder: str | Path) -> bool:
    """Whether a run has up to about eight million events; one whose size is unknown is taken for large."""
    size_bytes = _measure_events(run_folder)
    return size_bytes is not None and size_bytes <= _SMALL_RUN_BYTES


def estimate_events(run_folder: str | Path) -> int:
    """Return about how many events a run has, from the size of its logs; a run whose size is unknown is taken for large."""
    size_bytes = _measure_events(run_folder)
    return EVENTS_PER_PARTITION if size_bytes is None else size_bytes // _BYTES_PER_EVENT


def _measure_events(run_folder: str | Path) -> int | None:
    if is_address(str(run_folder)):
        try:
            events = open_address(str(run_folder)) / EVENTS.kind
            sealed = open_address(str(run_folder)) / SEALED / EVENTS.kind
        except (BadInputError, OSError):  # Spark reads more file systems; that of Hadoop needs its libraries here
            return None
        with address_errors(str(run_folder)):
            text_bytes, sealed_bytes = (
                sum(int(found["size"]) for found in folder.fs.find(folder.path, detail=True).values())
                for folder in (events, sealed)
            )
            return max(text_bytes, sealed_bytes * _TEXT_PER_SEALED)  # the text of a large run is not kept
    if (known := find_sealed(Path(run_folder))) is not None:
        return sum(file.bytes for file in known.files if file.kind == EVENTS.kind)
    return sum(path.stat().st_size for path in Path(run_folder).glob("events/*.csv"))
