"""The base of all sections of a scenario: their strictness, the types of their fields, and how they report an issue."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationInfo, model_validator
from pydantic_core import PydanticCustomError

from stallbench.base.duration import ON_RECORD

ISSUE = "issue"
"""Type of the errors that `issue` makes."""


class Section(BaseModel):
    """A part of a scenario: strict, frozen, without unknown keys."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, populate_by_name=False, allow_inf_nan=False)

    @model_validator(mode="before")
    @classmethod
    def _leave_out_defaults_on_record(cls, content: object, info: ValidationInfo) -> object:
        """Leave out keys whose value is the default: a record has every key, but some keys are allowed only in certain scenarios."""
        if not (info.context and info.context.get(ON_RECORD)) or not isinstance(content, dict):
            return content
        defaults = {name: field.default for name, field in cls.model_fields.items()}
        return {key: value for key, value in content.items() if key not in defaults or value != defaults[key]}


def issue(problem: str, *, key: str | None = None) -> PydanticCustomError:
    """Return the error for a validator to raise.

    ``problem``: what follows the path of the value in the user's line, with its leading space or colon. ``key``: for a validator of a
    whole table, the key in it that the issue is about.
    """
    return PydanticCustomError(ISSUE, "{problem}", {"problem": problem} | ({"key": key} if key else {}))


def _require_setting_value(value: object) -> object:
    if isinstance(value, str | int | float | bool):
        return value
    raise ValueError("expected text, a number, true or false")


Name = Annotated[str, Field(pattern=r"^[a-z][a-z0-9_-]{0,62}$")]
Text = Annotated[str, Field(pattern=r"\S")]
SettingName = Annotated[str, Field(pattern=r"^[a-z_][a-z0-9_.]{0,127}$")]
SettingValue = Annotated[str | int | float | bool, BeforeValidator(_require_setting_value)]
