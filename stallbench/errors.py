"""The errors that end a command, and the exit codes that scripts can rely on."""

from __future__ import annotations

EXIT_PASS = 0
EXIT_FAIL = 1
EXIT_BAD_INPUT = 2
EXIT_NOT_CARRIED_OUT = 3
EXIT_INTERRUPTED = 130


class StallbenchError(Exception):
    """An error that is shown to the user as one message, without a traceback."""

    exit_code: int = EXIT_NOT_CARRIED_OUT


class BadInputError(StallbenchError):
    """The input is invalid: a wrong name, value or path. Nothing was started."""

    exit_code = EXIT_BAD_INPUT


class NotCarriedOutError(StallbenchError):
    """The run could not be carried out to its end. Its records are kept."""
