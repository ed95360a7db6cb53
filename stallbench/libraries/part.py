"""A table of ``library.toml``."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict


class Part(BaseModel):
    """A table whose keys are checked: an unknown key, or a value of another type, is an error."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)
