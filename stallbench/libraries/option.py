"""An option of a library that a scenario may set: ``[options.NAME]`` in ``library.toml``."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Literal

from pydantic import BaseModel, Field, model_validator

from stallbench.engines import ENGINES
from stallbench.libraries.part import Part

_NAME = re.compile(r"[a-z][a-z0-9_]*")
_TAKEN = frozenset({"kind", "retained", "find_option", "value_of"}) | frozenset(dir(BaseModel))
"""Keys of ``[queue]`` that every library has, and names that the bench's options of a queue need."""


class Option(Part):
    """An option that a scenario may set, as ``queue.<name>``."""

    default: int | float | bool | str
    at_least: float | None = None
    one_of: tuple[str | int, ...] = Field(
        default=(), strict=False, description="the values that a text or a whole number may have; if none, any"
    )
    description: str
    engines: tuple[str, ...] = Field(default=(), strict=False, description="engines on which it may be set; if none, all")
    role: Literal["attempt_limit", "expiry"] | None = Field(default=None, description="see `stallbench.queues.queue.OptionRole`")

    @property
    def is_number(self) -> bool:
        """Whether its values are numbers."""
        return not isinstance(self.default, bool | str)

    @model_validator(mode="after")
    def _require_an_allowed_default(self) -> Option:
        if self.one_of and self.default not in self.one_of:
            raise ValueError(f"default is {self.default!r}; expected one of one_of: {', '.join(map(str, self.one_of))}")
        if self.at_least is not None and not isinstance(self.default, bool | str) and self.default < self.at_least:
            raise ValueError(f"default is {self.default:g}; expected at_least, {self.at_least:g}, or more")
        return self

    @model_validator(mode="after")
    def _require_a_number(self) -> Option:
        key = "at_least" if self.at_least is not None else f'role = "{self.role}"' if self.role is not None else ""
        if key and not self.is_number:
            raise ValueError(f"{key} is for a number, but default is {self.default!r}; expected a number as default, or no {key}")
        return self

    @model_validator(mode="after")
    def _require_engines_that_exist(self) -> Option:
        if unknown := set(self.engines).difference(ENGINES):
            raise ValueError(f"engines: there is no engine {', '.join(sorted(unknown))}; expected {', '.join(ENGINES)}")
        return self


def find_name_issues(names: Iterable[str]) -> Iterator[str]:
    """Yield what is wrong with the names of options."""
    for name in names:
        if not _NAME.fullmatch(name):
            yield f'"{name}" is no name of an option; expected lower-case letters, digits and _, a letter first'
        elif name in _TAKEN:
            yield f'"{name}" cannot be the name of an option, because the bench uses it; expected another one'
