"""A scenario's content as written in its file, and its sections that are valid by themselves."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from stallbench.engines.database import Database
from stallbench.scenario.sections import Producers, QueueChoice, Workers

ModelT = TypeVar("ModelT", bound=BaseModel)


@dataclass(frozen=True, kw_only=True)
class RawScenario:
    """What the checks of all sections read. A section that is invalid by itself is None here: `stallbench.scenario.validation.keys_and_values`
    reports its issues, and checks that depend on it are left out.
    """

    raw: Mapping[str, Any]
    variants: Collection[str] = ()
    """Names of the file's variants."""

    def table(self, key: str) -> dict[str, Any]:
        """Return the table ``key`` as given; empty if there is none."""
        return as_table(self.raw.get(key))

    def items(self, key: str) -> list[dict[str, Any]]:
        """Return the tables of the array ``key`` as given. An item that is not a table becomes an empty table, so that positions do not change."""
        return as_items(self.raw.get(key))

    @cached_property
    def measured(self) -> Mapping[str, bool]:
        """Of each phase, by its name, whether it is measured."""
        named = [phase for phase in self.items("phases") if isinstance(phase.get("name"), str)]
        return {phase["name"]: phase.get("measured", True) is not False for phase in named}

    @cached_property
    def database(self) -> Database | None:
        """The engine and the number of replicas; all other keys have their defaults."""
        given = self.table("database")
        return valid(Database, {key: given[key] for key in ("engine", "replicas") if key in given})

    @cached_property
    def queue(self) -> QueueChoice | None:
        """The section ``[queue]``."""
        return valid(QueueChoice, self.raw.get("queue"))

    @cached_property
    def producers(self) -> Producers | None:
        """The section ``[producers]``."""
        return valid(Producers, self.raw.get("producers"))

    @cached_property
    def workers(self) -> Workers | None:
        """The section ``[workers]``."""
        return valid(Workers, self.table("workers"))


def valid(model: type[ModelT], value: object) -> ModelT | None:
    """Return ``value`` as ``model``; none if it is invalid."""
    try:
        return model.model_validate(value)
    except ValidationError:
        return None


def as_table(value: object) -> dict[str, Any]:
    """Return ``value`` if it is a table, else an empty one."""
    return value if isinstance(value, dict) else {}


def as_items(value: object) -> list[dict[str, Any]]:
    """Return the items of ``value`` if it is an array, each as a table; else an empty list."""
    return [as_table(item) for item in value] if isinstance(value, list) else []
