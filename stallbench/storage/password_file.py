"""Where the password of a run's own servers is, for processes that join it. The reaper, which removes it, starts without all that writes it."""

from __future__ import annotations

from pathlib import Path

EXTERNAL_FOLDER = "external"
"""In a run's folder: what the bench and the processes that join it tell each other."""
PASSWORD_FILE = "password"  # noqa: S105 - a name, not a password


def name_password_file(run: Path) -> Path:
    """Return the path of the file in a run's folder."""
    return run / EXTERNAL_FOLDER / PASSWORD_FILE
