"""The settings of a library's worker process on which its throughput and latency depend: ``[settings]`` in ``library.toml``."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Literal, Self

from pydantic import BeforeValidator, Field, model_validator

from stallbench.libraries.part import Part

_TIMES = ("poll_interval", "rescue_interval")
Value = int | float | Literal["no limit", "each claim", "never"]


class Setting(Part):
    """The value of a setting: fixed, or computed from an option that a scenario may set."""

    value: Value | None = Field(default=None, description="the value, if no option sets it")
    option: str | None = Field(default=None, description="the option whose value it is")
    times: int = Field(default=1, ge=1, description="what the option's value is multiplied by")
    divided_by: int = Field(default=1, ge=1, description="what it is divided by")
    plus: int = Field(default=0, ge=0, description="what is added then")
    only_if: str | None = Field(default=None, description="option that must be true, or not 0, for this value to be in force")
    above: int = Field(default=0, ge=0, description="what that option must be above, if it is a number")
    note: str = Field(default="", description="what a reader must know besides the value")
    source: str = Field(min_length=1, description="where the value is from: a file of the package, or of the adapter")

    @model_validator(mode="after")
    def _require_one_origin(self) -> Self:
        if (self.value is None) == (self.option is None):
            raise ValueError("has both value and option, or none; expected one of them")
        if self.option is None and (self.times, self.divided_by, self.plus) != (1, 1, 0):
            raise ValueError("has times, divided_by or plus without option")
        if self.only_if is None and self.above:
            raise ValueError("has above without only_if")
        return self

    def is_in_force(self, options: Mapping[str, Any]) -> bool:
        """Whether the value is in force with ``options``."""
        return self.only_if is None or options[self.only_if] > self.above

    def compute(self, options: Mapping[str, Any]) -> Value:
        """Return the value in force with ``options``."""
        if self.value is not None:
            return self.value
        value: int | float = options[str(self.option)]
        scaled = value * self.times
        return (scaled if self.divided_by == 1 else scaled / self.divided_by) + self.plus


def _as_array(value: object) -> object:
    return [value] if isinstance(value, dict) else value


Alternatives = Annotated[tuple[Setting, ...], BeforeValidator(_as_array), Field(min_length=1, strict=False)]
"""The first whose ``only_if`` holds is in force; the last has none. In the file, a table if there is only one."""


class Settings(Part):
    """What is in force in each worker process."""

    concurrency: Alternatives = Field(description="jobs that it executes at the same time")
    batch_size: Alternatives = Field(description="most jobs that it has claimed and not completed")
    poll_interval: Alternatives = Field(
        description="seconds between two searches for jobs when it has found none and gets no notification"
    )
    rescue_interval: Alternatives = Field(
        description="seconds between two searches for the jobs of dead workers; each claim: the claim statement finds them; never: no search"
    )
    pool: Alternatives = Field(description="most connections that it opens")

    @model_validator(mode="after")
    def _require_a_last_alternative(self) -> Self:
        for name, alternatives in self.alternatives.items():
            if alternatives[-1].only_if is not None:
                raise ValueError(f"{name}: the last value has only_if; expected one that is in force otherwise")
            if any(each.only_if is None for each in alternatives[:-1]):
                raise ValueError(f"{name}: only the last value may have no only_if")
        return self

    @property
    def alternatives(self) -> dict[str, tuple[Setting, ...]]:
        """The alternatives of each setting, by its name."""
        return {name: getattr(self, name) for name in Settings.model_fields}

    def in_force(self, options: Mapping[str, Any]) -> dict[str, Setting]:
        """Return the alternative of each setting that ``options`` put in force."""
        return {
            name: next(each for each in alternatives if each.is_in_force(options))
            for name, alternatives in self.alternatives.items()
        }

    def find_issues(self, defaults: Mapping[str, object]) -> Iterator[str]:
        """Yield what refers to no option of the library, or to one that is no number; ``defaults`` are those of its options."""
        for name, alternatives in self.alternatives.items():
            for each in alternatives:
                for key in (each.option, each.only_if):
                    if key is not None and key not in defaults:
                        yield f'settings.{name}: there is no option "{key}"; there are {", ".join(defaults) or "none"}'
                if isinstance(defaults.get(each.option or ""), bool | str):
                    yield f'settings.{name}: the option "{each.option}" is no number'
                if isinstance(defaults.get(each.only_if or ""), str):
                    yield f'settings.{name}: the option "{each.only_if}" is text; only_if expects a number, or true or false'


def format_settings(values: Mapping[str, Value]) -> str:
    """Return the values as text, like ``concurrency 1, batch size 4``."""
    return ", ".join(f"{name.replace('_', ' ')} {format_setting(name, value)}" for name, value in values.items())


def format_setting(name: str, value: Value) -> str:
    """Return a value with its unit."""
    if isinstance(value, str):
        return value
    return f"{value:g} s" if name in _TIMES else f"{value:g}"
