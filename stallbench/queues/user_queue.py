"""Loads a user's own queue: a class in a file that the scenario names, ``path/to/file.py:ClassName``.

Each process of a run loads the file separately, from the same working directory. Nothing has to be installed or registered.
"""

from __future__ import annotations

import hashlib
import importlib
import importlib.util
import inspect
import re
import sys
import traceback
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

from stallbench.queues.queue import Promise, Queue, QueueOptions

_SUFFIX = ".py"
_ANY_ERROR = (Exception, SystemExit)
"""What a file may raise when it is loaded. `SystemExit` too: a file that calls ``sys.exit`` would otherwise end the bench with its exit code."""
_folders: set[Path] = set()
"""The folders of the files that were loaded."""
_REQUIRED_ATTRIBUTES = ("summary", "source", "engines", "options_type", "promise", "ordered", "tables", "indexes")


def _are_names(value: object) -> bool:
    return isinstance(value, tuple | list | frozenset | set) and all(isinstance(each, str) for each in value)


def _is_pattern(value: object) -> bool:
    try:
        re.compile(value)  # type: ignore[call-overload] # whatever the user wrote
    except (re.error, TypeError):
        return False
    return isinstance(value, str)


_NAMES = (_are_names, 'a tuple of names, like ("my_jobs",)')
_ATTRIBUTES: Mapping[str, tuple[Callable[[Any], bool], str]] = {
    "summary": (lambda value: isinstance(value, str), "a text"),
    "source": (lambda value: isinstance(value, str), "a text"),
    "engines": (_are_names, 'a frozenset of names, like frozenset({"postgres"})'),
    "options_type": (lambda value: isinstance(value, type) and issubclass(value, QueueOptions), "a subclass of QueueOptions"),
    "promise": (lambda value: value in list(Promise), f"one of {', '.join(f'Promise.{each.name}' for each in Promise)}"),
    "ordered": (lambda value: isinstance(value, bool), "True or False"),
    "tables": _NAMES,
    "indexes": _NAMES,
    "claim_pattern": (_is_pattern, "a regular expression"),
}
"""Attributes whose type is checked when a class is loaded: whether a value is valid, and what is expected."""


class NoQueueError(Exception):
    """The name does not refer to a queue. The message follows the name: what was found, and what is expected."""


def is_user_queue(kind: str) -> bool:
    """Whether ``kind`` names a file and not one of the bench's own queues."""
    return f"{_SUFFIX}:" in kind or kind.endswith(_SUFFIX) or "/" in kind


@cache
def load_queue(kind: str) -> type[Queue[Any]]:
    """Return the class that ``kind``, ``path/to/file.py:ClassName``, names; a relative path counts from the working directory.

    The file can import modules from its own folder; if that folder is a package, by the package's name. Raises `NoQueueError`.
    """
    name, colon, class_name = kind.rpartition(":")
    if not colon or not name.endswith(_SUFFIX):
        raise NoQueueError("names a file, but no class in it; expected path/to/file.py:ClassName")
    path = Path(name).absolute()
    if not path.is_file():
        raise NoQueueError(f"names a file that does not exist: {path}")
    module = _load(path)
    _folders.add(Path(module.__file__ or path).parent)
    found = getattr(module, class_name, None)
    if not (isinstance(found, type) and issubclass(found, Queue)):
        classes = [(one, member) for one, member in inspect.getmembers(module, inspect.isclass) if issubclass(member, Queue)]
        # A base class that the file imports is no queue of it.
        queues = [one for one, member in classes if member.__module__ == module.__name__ or not inspect.isabstract(member)]
        raise NoQueueError(f"names no queue of that file; it has {', '.join(queues) or 'none: a queue is a subclass of Queue'}")
    missing = [*sorted(found.__abstractmethods__), *(one for one in _REQUIRED_ATTRIBUTES if not hasattr(found, one))]
    if missing:
        raise NoQueueError(f"is not a complete queue: it does not define {', '.join(missing)}; see docs/add-a-queue.md")
    for name, (is_valid, expected) in _ATTRIBUTES.items():
        value = getattr(found, name)
        if not is_valid(value):
            raise NoQueueError(f"is not a complete queue: {name} is {value!r}; expected {expected}; see docs/add-a-queue.md")
    return found


def describe_mistake(error: BaseException) -> str | None:
    """Return what a user's queue raised, and where; none if ``error`` was raised by anything else, or passes only through the bench's own code."""
    frames = (frame for frame in reversed(traceback.extract_tb(error.__traceback__)) if Path(frame.filename).parent in _folders)
    if (frame := next(frames, None)) is None:
        return None
    what = f"{type(error).__name__}: {str(error).strip()}".removesuffix(": ")
    return f"the queue raised {what} ({frame.filename}, line {frame.lineno}, in {frame.name})"


def _load(path: Path) -> ModuleType:
    root, parts = path.parent, [path.stem]
    while (root / "__init__.py").is_file():
        parts.insert(0, root.name)
        root = root.parent
    if str(root) not in sys.path:
        sys.path.append(str(root))
    name = ".".join(parts)
    try:
        module = importlib.import_module(name)
    except _ANY_ERROR as error:
        raise NoQueueError(f"names a file that cannot be loaded: {type(error).__name__}: {error}") from error
    is_found = Path(module.__file__ or "").resolve() == path.resolve()
    return module if is_found else _load_beside(path)


def _load_beside(path: Path) -> ModuleType:
    """Load a file whose name another module has, like ``queue.py``: that of the standard library stays what others import."""
    name = f"user_queue_{hashlib.sha256(str(path).encode()).hexdigest()[:16]}"
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None, "the suffix is that of Python's files"
    module = sys.modules[name] = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except _ANY_ERROR as error:
        del sys.modules[name]
        raise NoQueueError(f"names a file that cannot be loaded: {type(error).__name__}: {error}") from error
    return module
