"""What ends a command early, each with the exit code that the user's scripts can rely on."""

from __future__ import annotations

EXIT_PASS = 0
EXIT_FAIL = 1
EXIT_BAD_INPUT = 2
EXIT_NOT_CARRIED_OUT = 3
EXIT_INTERRUPTED = 130


class StallbenchError(Exception):
    """Something that the user is told in one message, without a traceback."""

    exit_code: int = EXIT_NOT_CARRIED_OUT


class BadInputError(StallbenchError):
    """What was asked for cannot be meant: a wrong name, value or path. Nothing was started."""

    exit_code = EXIT_BAD_INPUT


class NotCarriedOutError(StallbenchError):
    """The run could not be carried out, or not to its end; what was recorded is kept."""
