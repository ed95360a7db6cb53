"""Reads the details of errors in event logs, as the pipeline does."""

from __future__ import annotations

import re

from stallbench.records.events import ERROR_PATTERN


def split_error(detail: str) -> tuple[str, str]:
    """Return the code and the operation of an error's ``detail``, each empty if it is not there."""
    found = re.match(ERROR_PATTERN, detail)
    return (found[1], found[2] or "") if found else ("", "")
