"""The end of a process whose server or disk fails: one line says why."""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable

from stallbench.engines import describe_error, loaded_errors
from stallbench.processes.role import EXIT_CANNOT_CONTINUE, CannotContinueError
from stallbench.visible_text import make_visible


def is_expected(error: BaseException) -> bool:
    """Whether the role's server or disk can cause this error, so that one line describes it to the user."""
    return isinstance(error, (CannotContinueError, OSError, *loaded_errors()))


def run_role(main: Callable[[], None]) -> None:
    """Run ``main``. If its server or disk fails, print why in one line and end with `EXIT_CANNOT_CONTINUE`."""
    gc.freeze()  # what was imported is no garbage
    gc.enable()
    try:
        main()
    except Exception as error:
        if not is_expected(error):
            raise
        print(f"cannot continue: {make_visible(describe_error(error))}", file=sys.stderr)
        sys.exit(EXIT_CANNOT_CONTINUE)
