"""An issue with a longrunner of a scenario, as ``python -m longrunners --check`` reports it to the bench, in JSON."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict


class LongrunnerIssue(BaseModel):
    """One issue: the parts of a sentence."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    where: str
    """The key: ``kind``, ``on``, or the path of an option, with dots."""
    found: str = ""
    """The value; empty for an unknown key."""
    expected: str = ""
    """What the value should be, in words; empty if `allowed` lists it."""
    allowed: tuple[str, ...] | None = None
    """The kinds on the engine, or the keys of the options if the key is unknown."""
    engine: str = ""
    """The engine on which there is no such kind."""
    detail: dict[str, Any] | None = None
    """pydantic's ``type``, ``loc``, ``msg`` and ``ctx``, if it found the issue in the options."""

    @property
    def is_unknown_key(self) -> bool:
        """Whether there is no such option."""
        return self.detail is not None and self.detail["type"] == "extra_forbidden"

    def __str__(self) -> str:
        """Return a sentence."""
        if self.is_unknown_key:
            return f"{self.where}: unknown key; " + (
                f"allowed are {', '.join(self.allowed)}" if self.allowed else "no key is allowed here"
            )
        if self.allowed is not None:
            return f"{self.where} is {self.found!r}; expected one of {', '.join(self.allowed)}"
        expected = self.expected.removeprefix("Value error, ").removeprefix("expected ").removeprefix("Input should be ")
        return f"{self.where} is {self.found}; expected {expected}"
