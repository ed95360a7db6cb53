"""A hash of what decides how a queue behaves, so that figures of a queue that has changed since can be found."""

from __future__ import annotations

import hashlib
import inspect
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from stallbench.libraries import Library
from stallbench.queues.library_queue import LibraryQueue
from stallbench.queues.queue import Queue

_DEFINITION = "library.toml"
"""Its sentences may change; `_SETTINGS` has what decides."""
_SETTINGS = {"command", "sql", "tables", "claim_pattern"}


def hash_queue(queue: type[Queue[Any]]) -> str:
    """Return a hash of a queue's module and statements; of a library, of its adapter, the command of its worker, its statements and options."""
    found = hashlib.sha256()
    for part in _read_library(queue.library) if issubclass(queue, LibraryQueue) else _read_module(queue):
        found.update(part)
    return found.hexdigest()[:16]


def _read_module(queue: type[Queue[Any]]) -> Iterator[bytes]:
    module = Path(inspect.getfile(queue))
    for path in (module, module.with_suffix(".sql")):
        if path.is_file():
            yield path.read_bytes()


def _read_library(library: Library) -> Iterator[bytes]:
    settings = library.model_dump(mode="json", include=_SETTINGS)
    settings["options"] = {name: option.default for name, option in library.options.items()}
    yield json.dumps(settings, sort_keys=True).encode()
    for path in sorted(path for path in library.folder.iterdir() if path.is_file() and path.name != _DEFINITION):
        yield path.name.encode()
        yield path.read_bytes()
