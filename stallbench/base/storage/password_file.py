"""Where the password of a run's own servers is, for processes that join it. The reaper, which removes it, starts without all that writes it."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

from stallbench.base.storage.private import open_trusted

EXTERNAL_FOLDER = "external"
"""In a run's folder: what the bench and the processes that join it tell each other."""
PASSWORD_FILE = "password"  # noqa: S105 - a name, not a password


def remove_password(run: Path) -> None:
    """Remove the file from a run's folder, if it is there; raises `UntrustedError` for a link in place of the folder, `OSError`."""
    path = run / EXTERNAL_FOLDER
    if os.path.lexists(path):
        with suppress(FileNotFoundError), open_trusted(path, is_shared=True) as folder:
            folder.remove(PASSWORD_FILE)
