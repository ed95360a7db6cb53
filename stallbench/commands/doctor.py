"""Checks the machine."""

from __future__ import annotations

import sys

from stallbench.errors import (
    EXIT_NOT_CARRIED_OUT,
    EXIT_PASS,
)


def doctor() -> None:
    """Check what the bench needs from this machine, and say what would install what is missing.

    Example:
        stallbench doctor
    """
    from stallbench.setup.doctor import check, render

    findings = check()
    print(render(findings))
    sys.exit(EXIT_PASS if all(finding.ok or not finding.is_needed for finding in findings) else EXIT_NOT_CARRIED_OUT)
