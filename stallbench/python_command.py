"""The command that starts a module of Python: every Python process of the bench is started by it.

Imports the standard library only: set-up runs before the virtual environment exists.
"""

from __future__ import annotations

import os
import sys

NOT_FROM_WORKING_DIRECTORY = "-P"
"""The option by which Python does not import from the working directory: that may be anybody's, like a run's folder that was copied here."""


def python_command(module: str, *arguments: str, python: str | os.PathLike[str] = sys.executable) -> list[str]:
    """Return the command that runs ``module`` of the interpreter ``python``, wherever the bench was started."""
    return [str(python), NOT_FROM_WORKING_DIRECTORY, "-m", module, *arguments]
