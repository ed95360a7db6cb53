"""Replaces files as a whole, so that a reader sees the old content or the new, and never a part of either."""

from __future__ import annotations

import os
from pathlib import Path


def replace_file(path: Path, text: str) -> None:
    """Give ``path`` the content ``text``: written beside it, made durable, then renamed.

    Raises `OSError` when that fails (disk full, read-only); ``path`` is then as it was, and nothing is left beside it.
    """
    fresh = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        with fresh.open("w") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        fresh.replace(path)
    except OSError:
        fresh.unlink(missing_ok=True)
        raise
