"""`stallbench doctor`: checks whether this machine has what the bench needs."""

from __future__ import annotations

import sys

from stallbench.errors import (
    EXIT_NOT_CARRIED_OUT,
    EXIT_PASS,
)
from stallbench.visible_text import say


def doctor() -> None:
    """Check that this machine has everything the bench needs, and show how to install what is missing.

    Exit codes: 0 nothing required is missing, 3 something required is missing.

    For example:

        stallbench doctor
    """
    from stallbench.setup.doctor import check, render

    findings = list(check())
    say(render(findings))
    sys.exit(EXIT_PASS if all(finding.ok or not finding.is_needed for finding in findings) else EXIT_NOT_CARRIED_OUT)
