"""Replaces files atomically: a reader sees either the old content or the new, never a mixture."""

from __future__ import annotations

import os
from pathlib import Path

from stallbench.base.storage.address import AnyPath


def replace_file(path: AnyPath, text: str, *, mode: int = 0o666) -> None:
    """Replace the content of ``path`` by ``text``: write a temporary file beside it, flush it to disk, and rename it.

    Raises `OSError` with the path when that fails (disk full, read-only). ``path`` is then unchanged, and the temporary file is removed. An object store
    replaces an object as a whole, so there it is written at once. ``mode``: who may read and write the file, less what the process's umask takes away.
    """
    if not isinstance(path, Path):
        path.write_text(text)
        return
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        temporary.unlink(missing_ok=True)  # of a process that had this id and was killed
        fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode)  # which follows no link
        with os.fdopen(fd, "w") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except OSError as error:
        temporary.unlink(missing_ok=True)
        error.filename = str(path)  # that of a failed write is unknown, and the temporary file's name means nothing to a user
        raise
