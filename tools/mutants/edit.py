"""A change of a text: what every operator yields."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Generic, TypeVar

SubjectT = TypeVar("SubjectT")


@dataclass(frozen=True, slots=True)
class Edit:
    """The characters from ``start`` to ``end`` are replaced."""

    start: int
    end: int
    replacement: str

    def apply(self, text: str) -> str:
        """Return the changed text."""
        return text[: self.start] + self.replacement + text[self.end :]


@dataclass(frozen=True, slots=True, kw_only=True)
class Operator(Generic[SubjectT]):
    """One kind of mistake."""

    name: str
    meaning: str
    """What the mistake is, to follow "the author"."""
    find: Callable[[SubjectT], Iterator[Edit]]
    """Yields each place where it can be made."""


class OperatorList(Generic[SubjectT]):
    """The operators of one language, in order."""

    def __init__(self) -> None:
        """Begin with none."""
        self._all: dict[str, Operator[SubjectT]] = {}

    @property
    def all(self) -> Mapping[str, Operator[SubjectT]]:
        """By name."""
        return self._all

    def add(
        self, name: str, meaning: str
    ) -> Callable[[Callable[[SubjectT], Iterator[Edit]]], Callable[[SubjectT], Iterator[Edit]]]:
        """Return a decorator that adds an operator."""

        def keep(find: Callable[[SubjectT], Iterator[Edit]]) -> Callable[[SubjectT], Iterator[Edit]]:
            assert name not in self._all
            self._all[name] = Operator(name=name, meaning=meaning, find=find)
            return find

        return keep
