"""Reads the text of a JSON file in the folder of a run or study, which somebody else may have sent."""

from __future__ import annotations

from stallbench.base.storage.address import AnyPath
from stallbench.errors import BadInputError

MOST_BYTES = 128 << 20
"""The record of a soak of a year has less; parsed, text takes about ten times its size of memory."""


def read_record_text(path: AnyPath) -> str:
    """Return the text. Raises `OSError` if it cannot be read, `BadInputError` if it is larger than `MOST_BYTES` or not in UTF-8."""
    size = path.stat().st_size
    if size > MOST_BYTES:
        raise BadInputError(f"{path}: has {size:,} bytes; a record has at most {MOST_BYTES:,}")
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise BadInputError(f"{path}: not a record: byte {error.start:,} is no text in UTF-8") from None
