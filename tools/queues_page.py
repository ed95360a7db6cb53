"""Makes docs/queues.md, the list of the bench's own queues and their options: ``python -m tools.queues_page`` replaces it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal, get_args, get_origin

from pydantic.fields import FieldInfo

from stallbench.queues import Queue, QueueOptions, find_queues

_START = """# Queues

The bench's own queues, and the options that a scenario sets as `queue.OPTION`. This page is generated: `python -m tools.queues_page` replaces
it. [Published libraries](libraries.md) have options, too: `stallbench libraries` lists the libraries, and their `library.toml` describes the options.
[Add a queue](add-a-queue.md) of your own.

"""


def describe_queues() -> str:
    """Return the page."""
    queues = find_queues()
    owner_of = {cls.options_type: kind for kind, cls in queues.items() if cls.options_type.model_fields}
    return _START + "\n".join("\n".join(_describe(kind, cls, owner_of)) + "\n" for kind, cls in queues.items())


def _describe(kind: str, cls: type[Queue[Any]], owner_of: dict[type[QueueOptions], str]) -> Iterator[str]:
    yield f"## {kind}\n"
    yield f"On {', '.join(sorted(cls.engines))}: {cls.summary}.\n"
    options = cls.options_type
    base = next((each for each in options.__mro__[1:] if each in owner_of), None)
    own = {name: field for name, field in options.model_fields.items() if base is None or name not in base.model_fields}
    if base is not None:
        yield f"It has the options of [{owner_of[base]}](#{owner_of[base]}){', and these:' if own else '.'}\n"
    elif not own:
        yield "It has no options."
    if own:
        yield "| option | default | values | meaning |\n|---|---|---|---|"
    for name, field in own.items():
        yield f"| `{field.alias or name}` | {_format(field.default)} | {_describe_values(field)} | {field.description} |"


def _describe_values(field: FieldInfo) -> str:
    """Return the values that an option may have, except for its bounds, which the error of a wrong value names."""
    parts = get_args(field.annotation) if get_origin(field.annotation) is not Literal else (field.annotation,)
    texts = []
    for part in parts or (field.annotation,):
        if get_origin(part) is Literal:
            texts += [_format(value) for value in get_args(part)]
        elif part in _TYPES:
            texts.append(_TYPES[part])
    return ", ".join(texts)


_TYPES: dict[Any, str] = {bool: "`true`, `false`", int: "a whole number", float: "a number", str: "a text"}


def _format(value: object) -> str:
    return "none" if value is None else f"`{json.dumps(value)}`"


if __name__ == "__main__":
    Path("docs/queues.md").write_text(describe_queues())
